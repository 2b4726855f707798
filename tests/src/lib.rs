//! What the test targets share: a real PostgreSQL of each supported kind, and a fresh, migrated database per test.
//!
//! A test asks for a [`Db`] through [`on_each_postgres!`], which runs it on PostgreSQL 15 and on 18. A server that cannot
//! be had is a failure, never a skip. Adapters are tried in a [`adapter_rig::AdapterRig`].

pub mod adapter_rig;
pub mod canary;
mod db;
mod docker;
pub mod evidence;
pub mod forged;
pub mod host;
pub mod mtn_client;
pub mod port;
pub mod rail;
pub mod rail_run;
mod railhost_binary;
pub mod reference;
mod server;
pub mod snapshot;
pub mod sql;
pub mod storm;
pub mod tool;
pub mod world;

use std::time::Duration;

pub use db::{Db, DbUser, accept_functions, sqlstate};
pub use railhost_binary::{railhost, railhost_path};
pub use server::{Pg, scratch_folder};

/// After which a test gives up on a fact. One limit for all, far beyond what a busy machine needs: a test that reaches it has
/// found something that will never be.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Runs each test on every PostgreSQL that the project supports.
///
/// ```text
/// on_each_postgres! {
///     async fn a_replay_takes_no_number(db: Db) { … }
/// }
/// ```
#[macro_export]
macro_rules! on_each_postgres {
    ($(async fn $name:ident($db:ident: Db) $body:block)*) => {
        $(async fn $name($db: $crate::Db) $body)*

        mod postgres_15 {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::Db::fresh($crate::Pg::V15).await).await;
            })*
        }

        mod postgres_18 {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::Db::fresh($crate::Pg::V18).await).await;
            })*
        }
    };
}
