use std::process::ExitCode;

use railhost::outbox::ready;
use railhost::rail::definition::Definition;
use railhost::rail::{Loaded, Sandbox};
use serde_json::json;

use super::print::{complain, out, out_json, say};
use super::session::Session;
use super::{adapters, exit};

/// Configuration was read and checked on the way here; what is left are the adapters, which are loaded without calling any
/// rail, and the database, its logins and its schema. Everything that is wrong is told at once.
pub(super) async fn run(session: &Session) -> anyhow::Result<ExitCode> {
    let config = &session.config;
    let sandbox = adapters::sandbox(config)?;
    let (mut faults, mut loaded) = (Vec::new(), Vec::new());
    if config.rails.is_empty() {
        faults.push(format!("{} has no rails", config.rails_folder.display()));
    }
    for (name, definition) in &config.rails {
        match load(&sandbox, definition, config.production).await {
            Ok(adapter) => loaded.push((name, adapter)),
            Err(problem) => faults.push(format!("rail {name}: {problem}")),
        }
    }
    let found = ready::look(session.database(), &config.rail_facts()).await;
    let of_database = !found.faults.is_empty() || !found.remarks.is_empty();
    faults.extend(found.faults);
    if session.json {
        let rails: Vec<_> = loaded
            .iter()
            .map(|(name, loaded)| {
                json!({ "rail": name, "sha256": loaded.digest.to_string(), "adapter": loaded.description.name,
                        "version": loaded.description.version })
            })
            .collect();
        out_json(
            &json!({ "configuration": config.file, "rails": rails, "faults": faults, "remarks": found.remarks }),
        )?;
    } else {
        let mut text = String::new();
        for (name, loaded) in &loaded {
            let described = &loaded.description;
            text += &format!(
                "  {name}: adapter {} {}, sha256 {}\n",
                described.name, described.version, loaded.digest
            );
        }
        let head =
            format!("Configuration {}, with {} rail(s) that load:\n", config.file.display(), loaded.len());
        let tail = match faults.is_empty() {
            true => {
                "The database answers, all logins lead to it, and its schema is the one this build expects.\n"
            }
            false => "",
        };
        out(&(head + &text + tail))?;
        found.remarks.iter().for_each(|remark| say(&format!("railhost: note: {remark}")));
        faults.iter().for_each(|fault| complain(&format!("railhost: fault: {fault}")));
    }
    // A remark counts as well: a schema that a newer release has changed is none that this build was tested with.
    Ok(match (of_database, faults.is_empty()) {
        (true, _) => exit::unavailable(),
        (false, false) => exit::usage_code(),
        (false, true) => ExitCode::SUCCESS,
    })
}

async fn load(sandbox: &Sandbox, definition: &Definition, production: bool) -> Result<Loaded, String> {
    if production && let Some(problem) = definition.refused_in_production() {
        return Err(problem);
    }
    Loaded::load(sandbox, definition).await.map_err(|error| error.to_string())
}
