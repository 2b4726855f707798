use std::process::ExitCode;

use outbox::Database;
use outbox::ready::{self, Readiness};
use rail::Loaded;
use serde_json::{Value, json};

use super::adapters;
use crate::config::{self, Config};
use terminal::exit;
use terminal::print::{complain, out, out_json, say};

/// What a look at everything found.
struct CheckReport<'c> {
    config: &'c Config,
    loaded: Vec<(&'c str, Loaded)>,
    faults: Vec<String>,
    remarks: Vec<String>,
}

/// Everything that is wrong is told at once: with the configuration, with the adapters, which are loaded without calling any
/// rail, and with the database, its logins and its schema. None is looked at where the configuration names none soundly.
pub(super) async fn run(
    config: &Config,
    database: Option<&Database>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut faults: Vec<String> = config.problems.iter().map(ToString::to_string).collect();
    faults.extend(no_rails(config));
    let loaded = load_all(config, &mut faults).await;
    let found = match database {
        Some(database) => ready::look(database, &config.rail_facts()).await,
        None => {
            faults.extend(config.database().err().map(|error| error.to_string()));
            Readiness::default()
        }
    };
    faults.extend(revoked(&loaded, &found.revoked));
    // A remark counts as well: a schema that a newer release has changed is none that this build was tested with.
    let of_database = !found.faults.is_empty() || !found.remarks.is_empty();
    faults.extend(found.faults);
    let checked = CheckReport { config, loaded, faults, remarks: found.remarks };
    if json {
        out_json(&checked.as_json())?;
    } else {
        checked.tell()?;
    }
    Ok(match (of_database, checked.faults.is_empty()) {
        (true, _) => exit::unavailable(),
        (false, false) => exit::usage_code(),
        (false, true) => ExitCode::SUCCESS,
    })
}

impl CheckReport<'_> {
    fn as_json(&self) -> Value {
        let rails: Vec<_> = self
            .loaded
            .iter()
            .map(|(name, loaded)| {
                json!({ "rail": name, "sha256": loaded.digest.to_string(), "adapter": loaded.description.name,
                        "version": loaded.description.version })
            })
            .collect();
        json!({ "configuration": self.config.file, "rails": rails, "faults": self.faults, "remarks": self.remarks })
    }

    fn tell(&self) -> anyhow::Result<()> {
        let mut text = format!(
            "Configuration {}, with {} rail(s) that load:\n",
            self.config.file.display(),
            self.loaded.len()
        );
        for (name, loaded) in &self.loaded {
            let described = &loaded.description;
            text += &format!(
                "  {name}: adapter {} {}, sha256 {}\n",
                described.name, described.version, loaded.digest
            );
        }
        if self.faults.is_empty() && self.remarks.is_empty() {
            text += "The database answers, all logins reach it, and its schema matches this build.\n";
        }
        out(&text)?;
        self.remarks.iter().for_each(|remark| say(&format!("railhost: note: {remark}")));
        self.faults.iter().for_each(|fault| complain(&format!("railhost: fault: {fault}")));
        Ok(())
    }
}

/// A folder whose files are all wrong is told of by these.
fn no_rails(config: &Config) -> Option<String> {
    let is_wrong = config.problems.iter().any(|problem| matches!(problem, config::Error::Rail(_)));
    (config.rails.is_empty() && !is_wrong).then(|| format!("{} has no rails", config.rails_folder.display()))
}

async fn load_all<'c>(config: &'c Config, faults: &mut Vec<String>) -> Vec<(&'c str, Loaded)> {
    let mut loaded = Vec::new();
    // The folder of compiled code is made where there is something to compile.
    if config.rails.is_empty() {
        return loaded;
    }
    let sandbox = match adapters::sandbox(config) {
        Ok(sandbox) => sandbox,
        Err(error) => {
            faults.push(error.to_string());
            return loaded;
        }
    };
    for (name, definition) in &config.rails {
        // What a host that takes it does as well: it judges the recorded exchanges of the rail file again.
        if let Err(error) = conformance::examine(&sandbox, definition).await {
            faults.push(format!("rail {name}: {error}"));
        }
        match Loaded::load(&sandbox, definition).await {
            Ok(adapter) => loaded.push((name.as_str(), adapter)),
            Err(error) => faults.push(format!("rail {name}: {error}")),
        }
    }
    loaded
}

/// Rails that load, and that no host would send anything with.
fn revoked(loaded: &[(&str, Loaded)], revoked: &[Vec<u8>]) -> Vec<String> {
    let is_revoked =
        |adapter: &Loaded| revoked.iter().any(|digest| digest.as_slice() == adapter.digest.as_bytes());
    loaded
        .iter()
        .filter(|(_, adapter)| is_revoked(adapter))
        .map(|(name, adapter)| format!("rail {name}: its component {} was revoked", adapter.digest))
        .collect()
}
