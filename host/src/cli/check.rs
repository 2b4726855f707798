use std::process::ExitCode;

use railhost::outbox::migrate;
use serde_json::json;

use super::session::Session;

/// Configuration was read and checked on the way here; what is left is the database and its schema.
pub(super) async fn run(session: &Session) -> anyhow::Result<ExitCode> {
    migrate::verify(session.database()).await?;
    let rails: Vec<&String> = session.config.rails.keys().collect();
    if session.json {
        println!("{}", json!({ "configuration": session.config.file, "rails": rails, "database": "ready" }));
    } else {
        println!(
            "Configuration {} is sound, with {} rail(s): {:?}.",
            session.config.file.display(),
            rails.len(),
            rails
        );
        println!("The database answers and its schema is the one this build expects.");
    }
    Ok(ExitCode::SUCCESS)
}
