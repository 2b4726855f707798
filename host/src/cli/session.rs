use std::process::ExitCode;

use anyhow::Context;
use railhost::embedded::{Options, Server};
use railhost::outbox::operate::Reason;
use railhost::outbox::{Database, migrate};
use serde_json::json;

use super::BadArgument;
use super::print::{out, out_json, say};
use crate::config::Config;

/// What one command works with: its configuration, its database, and the private server if it runs on one.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) config: Config,
    pub(super) json: bool,
    database: Database,
    server: Option<Server>,
}

impl Session {
    /// Connects to nothing yet, except that the development mode starts its server and brings it up to date.
    pub(super) async fn open(config: Config, dev: bool, json: bool) -> anyhow::Result<Self> {
        if !dev {
            let database = config.database()?;
            return Ok(Self { config, json, database, server: None });
        }
        let folder = &config.embedded.folder;
        let server = Server::start_or_attach(Options::kept(folder)).await?;
        if server.is_owner() {
            say(&format!(
                "PostgreSQL {} of our own in {} (binaries: {}); it stops with this command.",
                server.major(),
                server.folder().display(),
                server.origin().map_or_else(|| "attached".to_owned(), ToString::to_string),
            ));
        } else {
            say(&format!(
                "Using the PostgreSQL that another railhost runs in {}.",
                server.folder().display()
            ));
        }
        let database = Database::new(server.connect_options());
        let session = Self { config, json, database, server: Some(server) };
        session.bring_up_to_date().await.with_context(|| {
            let folder = session.config.embedded.folder.display();
            format!(
                "the private PostgreSQL in {folder} may be of another build: remove that folder to begin anew"
            )
        })?;
        Ok(session)
    }

    pub(super) async fn close(self) -> anyhow::Result<()> {
        if let Some(mut server) = self.server
            && server.is_owner()
        {
            server.stop().await.context("the private PostgreSQL did not stop")?;
        }
        Ok(())
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
        Err(BadArgument(format!(
            "rail {rail_type:?} is not known; there are files for: {}",
            known.join(", ")
        )))
    }

    pub(super) async fn migrate(&self) -> anyhow::Result<ExitCode> {
        let migrated = self.bring_up_to_date().await?;
        if self.json {
            out_json(
                &json!({ "migrated": migrated, "rails": self.config.rails.keys().collect::<Vec<_>>() }),
            )?;
        } else {
            out(&format!(
                "PostgreSQL {}: {} migrations were there, {} applied now; {} rail(s) told to the database.\n",
                migrated.server_version,
                migrated.already_applied,
                migrated.newly_applied,
                self.config.rails.len()
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn bring_up_to_date(&self) -> anyhow::Result<migrate::Migrated> {
        let migrated = migrate::run(&self.database).await?;
        let reason =
            Reason { by: "railhost migrate".to_owned(), why: "the rail's configuration file".to_owned() };
        migrate::tell_of_rails(&self.database, &self.config.rail_facts(), &reason).await?;
        Ok(migrated)
    }
}
