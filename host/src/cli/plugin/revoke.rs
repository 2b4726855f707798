use std::process::ExitCode;

use clap::Args;
use outbox::operate::Operator;
use serde_json::json;
use verdict::digest::Digest;

use crate::cli::act_reason::ActReason;
use crate::cli::session::CommandContext;
use terminal::BadArgument;
use terminal::print::{out, out_json};

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// SHA-256 of the component, as `plugin inspect` and `check` show it.
    digest: String,
    #[command(flatten)]
    reason: ActReason,
}

impl Revoke {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let digest = Digest::parse(&self.digest).ok_or_else(|| {
            BadArgument(format!("{:?} is not a digest, expected 64 hexadecimal digits", self.digest))
        })?;
        let operator = Operator::new(session.database());
        operator.revoke_adapter(digest.as_bytes(), &self.reason.into()).await?;
        match session.json {
            true => out_json(&json!({ "revoked": digest.to_string() }))?,
            false => out(&format!(
                "Component {digest} is revoked: no host sends anything with it, and none loads it again.\n"
            ))?,
        };
        Ok(ExitCode::SUCCESS)
    }
}
