//! The integrator's kit: no database, no rail, no host code to read.

mod extract;
mod inspect;
mod new;
mod sign;
mod test;

use std::process::ExitCode;

use clap::Subcommand;

use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(crate) enum Plugin {
    /// Write a new adapter that builds and passes.
    New(new::New),
    /// What a component is, imports and asks for, without a rail.
    Inspect(inspect::Inspect),
    /// Write a built-in adapter to a file, for a rail's file that pins it.
    Extract(extract::Extract),
    /// Find out whether a component keeps the contract, offline.
    Test(test::Test),
    /// Make a key pair for signing components.
    Key(sign::NewKey),
    /// Sign a component.
    Sign(sign::Sign),
    /// Check a component's signature.
    Verify(sign::Verify),
}

impl Plugin {
    pub(super) async fn run(self, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
        match self {
            Self::New(new) => new.run(json),
            Self::Inspect(inspect) => inspect.run(config, json).await,
            Self::Extract(extract) => extract.run(json),
            Self::Test(test) => test.run(config, json).await,
            Self::Key(key) => key.run(json),
            Self::Sign(sign) => sign.run(json),
            Self::Verify(verify) => verify.run(json),
        }
    }
}
