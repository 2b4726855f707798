use std::process::ExitCode;

use outbox::operate::Reason;
use outbox::{Database, migrate};
use serde_json::json;

use crate::config::Config;
use terminal::BadArgument;
use terminal::print::{out, out_json};

/// What one command works with: its configuration, its database, and the private server if it runs on one.
#[derive(Debug)]
pub(crate) struct CommandContext {
    pub(super) config: Config,
    pub(super) json: bool,
    pub(super) database: Database,
    #[cfg(feature = "dev")]
    pub(super) server: Option<dev::embedded::Server>,
}

impl CommandContext {
    /// Connects to nothing yet.
    pub(super) fn open(config: Config, json: bool) -> anyhow::Result<Self> {
        let database = config.database()?;
        Ok(Self {
            config,
            json,
            database,
            #[cfg(feature = "dev")]
            server: None,
        })
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Refuses a rail that no file in `config/rails` describes.
    pub(super) fn know_rail(&self, rail_type: &str) -> Result<(), BadArgument> {
        if self.config.rails.contains_key(rail_type) {
            return Ok(());
        }
        let known: Vec<&str> = self.config.rails.keys().map(String::as_str).collect();
        Err(BadArgument(format!("unknown rail {rail_type:?}. Rail files exist for: {}", known.join(", "))))
    }

    pub(super) async fn migrate(&self) -> anyhow::Result<ExitCode> {
        let migrated = self.bring_up_to_date().await?;
        if self.json {
            out_json(
                &json!({ "migrated": migrated, "rails": self.config.rails.keys().collect::<Vec<_>>() }),
            )?;
        } else {
            out(&format!(
                "PostgreSQL {}, schema {}, now of railhost {}: {} migrations were already applied, {} applied now; {} rail(s) written to the database.\n",
                migrated.server_version,
                migrated.schema,
                migrated.release,
                migrated.already_applied,
                migrated.newly_applied,
                self.config.rails.len()
            ))?;
            for (what, functions) in [
                ("applied", &migrated.functions.applied),
                ("put back, somebody had changed them by hand", &migrated.functions.put_back),
                ("no longer carried", &migrated.functions.no_longer_carried),
            ] {
                if migrated.already_applied > 0 && !functions.is_empty() {
                    out(&format!(
                        "functions and views {what} ({}): {}\n",
                        functions.len(),
                        functions.join(", ")
                    ))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    pub(super) async fn bring_up_to_date(&self) -> anyhow::Result<migrate::Migrated> {
        let migrated = migrate::run(&self.database).await?;
        let reason =
            Reason { by: "railhost migrate".to_owned(), why: "the rail's configuration file".to_owned() };
        migrate::tell_of_rails(&self.database, &self.config.rail_facts(), &reason).await?;
        Ok(migrated)
    }
}
