use std::process::ExitCode;

use railhost::outbox::ready;
use railhost::rail::{Options, Rails, Sandbox};
use serde_json::json;

use super::session::Session;

/// Configuration was read and checked on the way here; what is left are the adapters, which are loaded without calling any
/// rail, and the database and its schema.
pub(super) async fn run(session: &Session) -> anyhow::Result<ExitCode> {
    let config = &session.config;
    let sandbox = Sandbox::new(
        &config.adapters.cache,
        Options { calls_max: config.adapters.calls_max, ..Options::default() },
    )?;
    let rails = match config.rails_folder.is_dir() {
        true => Some(Rails::load(&sandbox, &config.rails_folder).await?),
        false => None,
    };
    let loaded: Vec<_> =
        rails.iter().flat_map(Rails::all).map(|rail| (rail.name.clone(), rail.current())).collect();
    ready::verify(session.database(), &config.rail_facts()).await?;
    if session.json {
        let rails: Vec<_> = loaded
            .iter()
            .map(|(name, loaded)| {
                json!({ "rail": name, "sha256": loaded.digest.to_string(), "adapter": loaded.description.name,
                        "version": loaded.description.version })
            })
            .collect();
        println!("{}", json!({ "configuration": config.file, "rails": rails, "database": "ready" }));
    } else {
        println!("Configuration {} is sound, with {} rail(s).", config.file.display(), loaded.len());
        for (name, loaded) in &loaded {
            let described = &loaded.description;
            println!("  {name}: adapter {} {}, sha256 {}", described.name, described.version, loaded.digest);
        }
        println!("The database answers and its schema is the one this build expects.");
    }
    Ok(ExitCode::SUCCESS)
}
