//! A session on the private PostgreSQL of the development mode.

use std::process::ExitCode;

use anyhow::Context;
use dev::embedded::{Server, ServerOptions};
use terminal::print::say;

use super::session::CommandContext;
use crate::config::Config;

impl CommandContext {
    /// Starts the private server, or finds it running, and brings it up to date.
    pub(super) async fn open_private(config: Config, json: bool) -> anyhow::Result<Self> {
        let folder = &config.embedded.folder;
        let server = Server::start_or_attach(ServerOptions::kept(folder)).await?;
        if server.is_owner() {
            say(&format!(
                "Private PostgreSQL {} in {} (binaries: {}); it stops when this command ends.",
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
        let database = config.database_at(server.connect_options());
        let session = Self { config, json, database, server: Some(server) };
        session.bring_up_to_date().await.with_context(|| {
            let folder = session.config.embedded.folder.display();
            format!(
                "the private PostgreSQL in {folder} may have been created by another build. To start afresh, remove that folder"
            )
        })?;
        Ok(session)
    }

    /// The private server ends with the command that started it.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        if let Some(mut server) = self.server
            && server.is_owner()
        {
            server.stop().await.context("the private PostgreSQL did not stop")?;
        }
        Ok(())
    }

    pub(super) async fn demo(&self, demo: dev::demo::Demo) -> anyhow::Result<ExitCode> {
        let ground = dev::demo::DemoSetup {
            database: &self.database,
            attempts_days: self.config.retention.attempts_days,
            months_ahead: self.config.retention.months_ahead,
            postgres: &self.config.embedded.folder,
            cache: &self.config.adapters.cache,
        };
        demo.run(&ground).await
    }
}
