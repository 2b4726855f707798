//! The integrator's kit: no rail, no host code to read, and but for `run` and `revoke` no database.

mod extract;
mod form;
mod inspect;
mod new;
mod oci;
mod oci_client;
mod record;
mod replay;
mod revoke;
#[cfg(feature = "dev")]
mod run;
mod sign;
mod test;

use std::process::ExitCode;

use clap::Subcommand;

use crate::cli::examples;
use crate::cli::session::CommandContext;
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(crate) enum Plugin {
    /// Create a new adapter that builds and passes its tests.
    #[command(after_help = examples::PLUGIN_NEW)]
    New(new::New),
    /// Show what a component exports, imports and requires, without a rail.
    #[command(after_help = examples::PLUGIN_INSPECT)]
    Inspect(inspect::Inspect),
    /// Write a built-in adapter to a file, for a rail file that pins it.
    #[command(after_help = examples::PLUGIN_EXTRACT)]
    Extract(extract::Extract),
    /// Show a rail's form with a payment filled in, and what changed in it.
    #[command(after_help = examples::PLUGIN_FORM)]
    Form(form::FormArgs),
    /// Test offline whether an adapter and its rail file reach the expected verdicts.
    #[command(after_help = examples::PLUGIN_TEST)]
    Test(test::Test),
    #[cfg(feature = "dev")]
    /// Build an adapter, run it, make one payment and show every exchange.
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
    /// Make one payment over a rail and save its exchanges without secrets.
    #[command(after_help = examples::PLUGIN_RECORD)]
    Record(record::RecordArgs),
    /// Replay recorded exchanges and show which verdicts change.
    #[command(after_help = examples::PLUGIN_REPLAY)]
    Replay(replay::ReplayArgs),
    /// Make a key pair for signing components.
    #[command(after_help = examples::PLUGIN_KEY)]
    Key(sign::NewKey),
    /// Sign a component and the rail file that it runs with.
    #[command(after_help = examples::PLUGIN_SIGN)]
    Sign(sign::SignArgs),
    /// Check a component's signature.
    #[command(after_help = examples::PLUGIN_VERIFY)]
    Verify(sign::Verify),
    /// Put a component into a registry of container images.
    #[command(after_help = examples::PLUGIN_PUSH)]
    Push(oci::Push),
    /// Fetch a component from such a registry, by its digest.
    #[command(after_help = examples::PLUGIN_PULL)]
    Pull(oci::Pull),
    /// Stop every host from using a component, at once and for good.
    #[command(after_help = examples::PLUGIN_REVOKE)]
    Revoke(revoke::Revoke),
}

impl Plugin {
    /// Whether it is for [`run_on`](Self::run_on).
    pub(super) fn needs_database(&self) -> bool {
        #[cfg(feature = "dev")]
        if self.is_private() {
            return true;
        }
        matches!(self, Self::Revoke(_))
    }

    #[cfg(feature = "dev")]
    /// Whether it works on a private database, whatever is configured.
    pub(super) fn is_private(&self) -> bool {
        matches!(self, Self::Run(_))
    }

    /// The configuration is read only where something of it is needed: a login that is not there yet stops nobody from
    /// writing an adapter.
    pub(super) async fn run(
        self,
        config: impl FnOnce() -> anyhow::Result<Config>,
        json: bool,
    ) -> anyhow::Result<ExitCode> {
        match self {
            Self::New(new) => new.run(json),
            Self::Inspect(inspect) => inspect.run(&config()?, json).await,
            Self::Extract(extract) => extract.run(json),
            Self::Form(form) => form.run(json),
            Self::Test(test) => test.run(&config()?, json).await,
            Self::Record(record) => record.run(&config()?, json).await,
            Self::Replay(replay) => replay.run(&config()?, json).await,
            Self::Key(key) => key.run(json),
            Self::Sign(sign) => sign.run(json),
            Self::Verify(verify) => verify.run(json),
            Self::Push(push) => push.run(json).await,
            Self::Pull(pull) => pull.run(json).await,
            #[cfg(feature = "dev")]
            Self::Run(_) => unreachable!("it needs a database"),
            Self::Revoke(_) => unreachable!("it needs a database"),
        }
    }

    pub(super) async fn run_on(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        match self {
            Self::Revoke(revoke) => revoke.run(session).await,
            #[cfg(feature = "dev")]
            Self::Run(run) => run.run(session).await,
            _ => unreachable!("it needs no database"),
        }
    }
}
