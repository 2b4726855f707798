//! A real PostgreSQL of our own, for development and for tests.
//!
//! Read in the order in which a start visits the files:
//!
//! 1. `account`: as whom the server runs, for PostgreSQL refuses root
//! 2. `place`, `claim`: the folder it lives in, and the lock that says who owns it
//! 3. `guard`: the small process that ends the server when its owner dies, however it dies
//! 4. `binaries`, `fetch`, `unpack`: where `postgres` and `initdb` come from
//! 5. `cluster`: the data folder, made whole or not at all
//! 6. `leftover`: what an earlier owner left behind, ended and removed
//! 7. `postmaster`, `access`: the running server, and the way in
//! 8. `server`: all of this in order, and starting again after a stop or a kill
//!
//! Passwords are asked for everywhere, no TCP port is open unless one is named, and a commit is on disk when it returns.

mod access;
mod account;
mod binaries;
mod claim;
mod cluster;
mod error;
mod failure;
mod fetch;
mod guard;
mod leftover;
mod origin;
mod place;
mod postmaster;
mod process;
mod server;
mod unpack;

use std::path::PathBuf;

pub use binaries::{Binaries, find};
pub use error::Error;
pub use origin::BinaryOrigin;
pub use server::Server;

/// How a server is to be run. Begin with [`ServerOptions::kept`] or [`ServerOptions::throwaway`].
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The folder that holds the cluster, its log, its password and its socket, and nothing that is not ours.
    pub folder: PathBuf,
    /// The major version wanted; none means that of the cluster in the folder, else the newest at hand.
    pub major: Option<u32>,
    pub lifetime: Lifetime,
    /// Further server settings. They come last and so win over ours.
    pub settings: Vec<(String, String)>,
    /// A port on 127.0.0.1 to listen on besides the Unix socket.
    pub tcp_port: Option<u16>,
}

/// What becomes of the folder when the server's owner ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// The cluster stays, shut down cleanly.
    Kept,
    /// The cluster goes with its owner.
    Throwaway,
}

impl ServerOptions {
    pub fn kept(folder: impl Into<PathBuf>) -> Self {
        Self::new(folder.into(), Lifetime::Kept)
    }

    pub fn throwaway(folder: impl Into<PathBuf>) -> Self {
        Self::new(folder.into(), Lifetime::Throwaway)
    }

    fn new(folder: PathBuf, lifetime: Lifetime) -> Self {
        Self { folder, major: None, lifetime, settings: Vec::new(), tcp_port: None }
    }
}
