//! How to connect to a server as its superuser.

use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection};

use super::cluster::{self, SUPERUSER};
use super::leftover::PidFile;
use super::place::ClusterFolder;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(super) struct FolderAccess {
    pub(super) socket_folder: PathBuf,
    pub(super) port: u16,
    pub(super) password: String,
}

impl FolderAccess {
    /// To a server that another process runs, if it is far enough to say where.
    pub(super) fn read(place: &ClusterFolder) -> Option<Self> {
        let PidFile { socket_folder, port, .. } = PidFile::read(&place.data())?;
        Some(Self { socket_folder, port, password: cluster::read_password(place).ok()? })
    }

    pub(super) fn options(&self) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(&self.socket_folder)
            .port(self.port)
            .username(SUPERUSER)
            .password(&self.password)
            .database("postgres")
            .ssl_mode(PgSslMode::Disable)
    }

    /// Connects and asks for the version: who gets an answer knows that the server is up.
    pub(super) async fn ask_version_num(&self) -> Result<u32, sqlx::Error> {
        let ask = async {
            let mut connection = self.options().connect().await?;
            let text: String =
                sqlx::query_scalar("show server_version_num").fetch_one(&mut connection).await?;
            connection.close().await?;
            text.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))
        };
        let answer = tokio::time::timeout(CONNECT_LIMIT, ask).await;
        answer.unwrap_or_else(|elapsed| Err(io::Error::from(elapsed).into()))
    }
}

/// Without the password, which has no place in a log.
impl fmt::Debug for FolderAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("socket_folder", &self.socket_folder)
            .field("port", &self.port)
            .finish()
    }
}

/// Whether waiting will not help: PostgreSQL is up and takes our password for a wrong one.
pub(super) fn is_refusal(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code.starts_with("28"))
}
