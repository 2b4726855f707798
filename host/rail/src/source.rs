//! Where a secret comes from.

use std::path::PathBuf;

use serde::Deserialize;

/// Where a value comes from that does not stand in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "{ env = \"NAME\" } or { file = \"path\" }: a secret does not stand in a rail file"
)]
pub enum SecretSource {
    Env { env: String },
    File { file: PathBuf },
}
