//! Who acts, and why.

use clap::Args;

/// Who acts, and why; kept with the act for ever.
#[derive(Debug, Args)]
pub(super) struct ActReason {
    /// Who acts.
    #[arg(long, env = "USER")]
    pub(super) by: String,
    /// Why.
    #[arg(long)]
    pub(super) why: String,
}
