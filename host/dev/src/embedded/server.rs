//! A server from start to end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;

use super::access::{FolderAccess, is_refusal};
use super::binaries::Binaries;
use super::claim::{FolderLock, blocking};
use super::guard::{Guardian, Watched};
use super::leftover::{self, PidFile};
use super::origin::BinaryOrigin;
use super::place::ClusterFolder;
use super::postmaster::{self, Listening, Postmaster, PostmasterEnd};
use super::{Error, Lifetime, ServerOptions, cluster};

/// Recovery after a crash comes before the first connection.
const START_LIMIT: Duration = Duration::from_secs(60);
/// As long as the guardian of an earlier owner may need.
const OWN_LIMIT: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(25);

/// A PostgreSQL that ends with the process that started it, or one of another process that we use.
///
/// Dropping the owner's handle stops the server and waits for that; a process that is killed has it done by the
/// guardian. Those who attached to it then lose their connections.
#[derive(Debug)]
pub struct Server {
    place: ClusterFolder,
    access: FolderAccess,
    version_num: u32,
    owned: Option<Owned>,
}

/// What only the owner has. Dropped in this order: the lock goes when the guardian is done.
#[derive(Debug)]
struct Owned {
    postmaster: Option<Postmaster>,
    binaries: Binaries,
    listening: Listening,
    settings: Vec<(String, String)>,
    lifetime: Lifetime,
    guardian: Guardian,
    lock: File,
}

impl Server {
    /// Starts a server in a folder that no one else is using, after waiting for an earlier one there to end.
    pub async fn start(options: ServerOptions) -> Result<Self, Error> {
        let deadline = Instant::now() + OWN_LIMIT;
        let mut claim = FolderLock::new(options.folder.clone());
        loop {
            if let Some((place, lock)) = claim.attempt().await? {
                return Self::run(options, place, lock).await;
            }
            if Instant::now() >= deadline {
                return Err(Error::NotOurs { folder: options.folder });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Starts a server in the folder, or uses the one that another process runs there.
    pub async fn start_or_attach(options: ServerOptions) -> Result<Self, Error> {
        let deadline = Instant::now() + START_LIMIT;
        let mut claim = FolderLock::new(options.folder.clone());
        loop {
            if let Some((place, lock)) = claim.attempt().await? {
                return Self::run(options, place, lock).await;
            }
            // It may be starting, or ending with its owner: either way the next round knows more.
            if let Some(place) = claim.place()
                && let Some(server) = Self::attach(place, options.major).await?
            {
                return Ok(server);
            }
            if Instant::now() >= deadline {
                return Err(Error::NotOurs { folder: options.folder });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Ends the server as a power cut would: nothing is written, no one is told.
    pub async fn kill(&mut self) -> Result<(), Error> {
        self.end(PostmasterEnd::Kill).await
    }

    /// Stops the server cleanly, within a limit.
    pub async fn stop(&mut self) -> Result<(), Error> {
        self.end(PostmasterEnd::Fast).await
    }

    /// Starts the server again on the same folder and socket, stopping it first if it runs.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.stop().await?;
        self.launch().await
    }

    /// Halts every process of the server: it holds its connections and answers nothing until [`Server::thaw`].
    pub fn freeze(&self) -> Result<(), Error> {
        self.owned()?.postmaster.iter().for_each(Postmaster::freeze);
        Ok(())
    }

    pub fn thaw(&self) -> Result<(), Error> {
        self.owned()?.postmaster.iter().for_each(Postmaster::thaw);
        Ok(())
    }

    /// How to connect as the superuser, to the database `postgres`.
    pub fn connect_options(&self) -> PgConnectOptions {
        self.access.options()
    }

    /// As PostgreSQL counts: 180004 for 18.4.
    pub fn version_num(&self) -> u32 {
        self.version_num
    }

    pub fn major(&self) -> u32 {
        self.version_num / 10_000
    }

    /// Where it really is, which is not where it was wanted if the server's user cannot go there.
    pub fn folder(&self) -> &Path {
        &self.place.folder
    }

    pub fn socket_folder(&self) -> &Path {
        &self.access.socket_folder
    }

    pub fn log(&self) -> PathBuf {
        self.place.log()
    }

    /// Where the binaries came from; none if another process started them.
    pub fn origin(&self) -> Option<&BinaryOrigin> {
        self.owned.as_ref().map(|owned| &owned.binaries.origin)
    }

    /// Whether the server ends with this handle.
    pub fn is_owner(&self) -> bool {
        self.owned.is_some()
    }

    /// The postmaster's, while it runs.
    pub fn pid(&self) -> Option<u32> {
        match &self.owned {
            Some(owned) => owned.postmaster.as_ref().map(Postmaster::pid),
            None => PidFile::read(&self.place.data()).map(|file| file.pid),
        }
    }

    /// The process that ends the server should this one die.
    pub fn guardian_pid(&self) -> Option<u32> {
        self.owned.as_ref().map(|owned| owned.guardian.pid())
    }

    /// The server of another process, if it is up.
    async fn attach(place: &ClusterFolder, wanted: Option<u32>) -> Result<Option<Self>, Error> {
        let Some(access) = FolderAccess::read(place) else { return Ok(None) };
        let Ok(version_num) = access.ask_version_num().await else { return Ok(None) };
        let server = Self { place: place.clone(), access, version_num, owned: None };
        match wanted.filter(|wanted| *wanted != server.major()) {
            None => Ok(Some(server)),
            Some(wanted) => {
                Err(Error::WrongMajor { folder: place.folder.clone(), found: server.major(), wanted })
            }
        }
    }

    async fn run(options: ServerOptions, place: ClusterFolder, lock: File) -> Result<Self, Error> {
        let ServerOptions { major, lifetime, settings, tcp_port, .. } = options;
        let listening = Listening { socket_folder: place.socket_folder()?, tcp_port };
        // Before there is anything to guard, so that there is no moment in which it is missing.
        let guardian = Guardian::start(&place, &listening.socket_folder, lifetime, &lock)?;
        let preparing = place.clone();
        // They go along, so that a caller who gives up does not free the folder under an initdb that still runs.
        let (binaries, password, guardian, lock) = blocking(move || {
            let (binaries, password) = cluster::prepare(&preparing, major, lifetime)?;
            Ok((binaries, password, guardian, lock))
        })
        .await?;
        let access =
            FolderAccess { socket_folder: listening.socket_folder.clone(), port: listening.port(), password };
        let owned = Owned { postmaster: None, binaries, listening, settings, lifetime, guardian, lock };
        let mut server = Self { place, access, version_num: 0, owned: Some(owned) };
        server.launch().await?;
        Ok(server)
    }

    async fn launch(&mut self) -> Result<(), Error> {
        let (place, socket_folder) = (self.place.clone(), self.access.socket_folder.clone());
        blocking(move || leftover::clean(&place, &socket_folder)).await?;

        let place = &self.place;
        let owned = self.owned.as_mut().ok_or_else(|| Error::NotOurs { folder: place.folder.clone() })?;
        owned.ensure_guardian(place)?;
        let postmaster = Postmaster::spawn(place, &owned.binaries, &owned.listening, &owned.settings)?;
        let pid = postmaster.pid();
        owned.postmaster = Some(postmaster);
        owned.guardian.watch(Watched::Pid(pid)).map_err(Error::io("tell the guardian of", &place.folder))?;

        self.wait_until_ready().await?;
        tracing::info!(pid, folder = %self.folder().display(), "PostgreSQL {} is up as process {pid}", self.major());
        Ok(())
    }

    async fn wait_until_ready(&mut self) -> Result<(), Error> {
        let folder = self.place.folder.clone();
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let postmaster = self.owned.as_mut().and_then(|owned| owned.postmaster.as_mut());
            if postmaster.is_none_or(Postmaster::has_ended) {
                return Err(Error::Died { folder, log: postmaster::log_tail(&self.place) });
            }
            let last = match self.access.ask_version_num().await {
                Ok(version_num) => {
                    self.version_num = version_num;
                    return Ok(());
                }
                Err(source) if is_refusal(&source) => return Err(Error::Refused { folder, source }),
                Err(error) => error.to_string(),
            };
            if Instant::now() >= deadline {
                let (limit_s, log) = (START_LIMIT.as_secs(), postmaster::log_tail(&self.place));
                return Err(Error::Slow { folder, limit_s, last, log });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn end(&mut self, how: PostmasterEnd) -> Result<(), Error> {
        let folder = self.place.folder.clone();
        let owned = self.owned.as_mut().ok_or(Error::NotOurs { folder })?;
        if let Some(postmaster) = owned.postmaster.take() {
            blocking(move || postmaster.end(how)).await;
            // A guardian that is gone has nothing to be told; the next launch starts another.
            owned.guardian.watch(Watched::Nothing).ok();
        }
        Ok(())
    }

    fn owned(&self) -> Result<&Owned, Error> {
        self.owned.as_ref().ok_or_else(|| Error::NotOurs { folder: self.place.folder.clone() })
    }
}

impl Owned {
    /// Tells the guardian that a server is about to start, and starts another if it was killed.
    fn ensure_guardian(&mut self, place: &ClusterFolder) -> Result<(), Error> {
        let told = self.guardian.watch(Watched::Soon);
        if told.is_ok() {
            return Ok(());
        }
        self.guardian = Guardian::start(place, &self.listening.socket_folder, self.lifetime, &self.lock)?;
        self.guardian.watch(Watched::Soon).map_err(Error::io("tell the guardian of", &place.folder))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(owned) = &mut self.owned else { return };
        if let Some(postmaster) = owned.postmaster.take() {
            postmaster.end(match owned.lifetime {
                Lifetime::Kept => PostmasterEnd::Fast,
                Lifetime::Throwaway => PostmasterEnd::Immediate,
            });
        }
        owned.guardian.watch(Watched::Nothing).ok();
    }
}
