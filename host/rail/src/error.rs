//! What can go wrong with an adapter, each with its name.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error as ThisError;

use verdict::call_error::CallError;
use verdict::digest::Digest;

/// Why a component was not taken in. None of its code had a say.
#[derive(Debug, ThisError)]
pub enum LoadError {
    #[error("{path}: cannot be read: {error}")]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{path}: {problem}")]
    Definition { path: PathBuf, problem: String },
    #[error("the component has {bytes} bytes; at most {max} are allowed")]
    TooLarge { bytes: u64, max: u64 },
    #[error("the digest is {found}, the rail file pins {pinned}")]
    WrongDigest { pinned: String, found: String },
    #[error(
        "the signature in {path} is by none of the trusted keys, or for another component or another rail file"
    )]
    WrongSignature { path: PathBuf },
    #[error("a core module, expected a component: build for wasm32-wasip2")]
    CoreModule,
    #[error("not a WebAssembly component: {0}")]
    Malformed(String),
    #[error("exports no interface symphony:rail/adapter")]
    NoAdapter,
    #[error("speaks version {found} of the contract, this host speaks {known}")]
    WrongContract { found: String, known: &'static str },
    #[error("imports {0}, which adapters may not import")]
    ForbiddenImport(String),
    #[error("cannot be compiled: {0}")]
    Compile(String),
    #[error("compiling it took more than {0} MiB of memory")]
    CompileMemory(u32),
    #[error("compiling it took more than {0} s of processor time")]
    CompileCpu(u32),
    #[error("compiling it took longer than {} s", .0.as_secs_f32())]
    CompileTime(Duration),
    #[error("its compiled code has more than {0} MiB")]
    CompileSize(u64),
    #[error("does not fit its contract: {0}")]
    Mismatch(String),
    #[error("exchanges: {0}")]
    Exchanges(String),
    #[error("reaches another verdict on a recorded exchange than the approved one: {0}")]
    Judged(String),
    #[error("component {0} is revoked")]
    Revoked(Digest),
    #[error("describe failed: {0}")]
    Describe(CallError),
    #[error("requires {kind} {name} ({purpose}), which is not in the rail file")]
    Unmet { kind: &'static str, name: String, purpose: String },
    #[error("does not fill in the variable {name} ({purpose}), which the rail file expects from it")]
    Unfilled { name: String, purpose: String },
    #[error("does not pay in {0}, which the rail file has in currencies")]
    Currency(String),
    #[error("the folder for compiled code: {0}")]
    Cache(String),
    #[error("{0}")]
    Network(String),
}
