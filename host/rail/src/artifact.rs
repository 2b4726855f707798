//! A component as bytes: its digest, its signature, and what its export and import lists say before anything is compiled.

use std::fs;
use std::path::Path;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use serde::Serialize;
use wasmparser::{Encoding, Parser, Payload};

use payment::plain;
use verdict::digest::Digest;

use super::definition::Profile;
use super::error::LoadError;
use super::file;

/// Far above what language runtimes produce (18 MB); compiling is the one thing that no limit of the engine covers.
pub const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The contract that this host speaks.
pub const CONTRACT: &str = "1.0.0";

const ADAPTER: &str = "symphony:rail/adapter@";

/// What every adapter may import: nothing of the host's, and stand-ins for what a standard library cannot do without.
const GRANTED: [&str; 12] = [
    "wasi:io/poll@",
    "wasi:io/error@",
    "wasi:io/streams@",
    "wasi:clocks/",
    "wasi:random/",
    "wasi:cli/environment@",
    "wasi:cli/exit@",
    "wasi:cli/stdin@",
    "wasi:cli/stdout@",
    "wasi:cli/stderr@",
    "wasi:cli/terminal-",
    "wasi:cli/run@",
];

/// What language runtimes import whether they need it or not; linked to something empty, where the rail file asks for it.
const INERT: [&str; 2] = ["wasi:filesystem/", "wasi:sockets/"];

/// Imports and exports of a component. An adapter has some thirty; each one more costs the host memory before a limit holds.
const NAMES_MAX: usize = 1_000;

/// A component's bytes, if there are not too many of them.
pub fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let unreadable = |error| LoadError::Unreadable { path: path.to_owned(), error };
    let bytes = fs::metadata(path).map_err(unreadable)?.len();
    if bytes > BYTES_MAX {
        return Err(LoadError::TooLarge { bytes, max: BYTES_MAX });
    }
    file::read(path, BYTES_MAX).map_err(unreadable)
}

/// What a component says of itself without being run, in names that are safe to show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outline {
    pub contract: Option<String>,
    pub imports: Vec<String>,
    pub exports: Vec<String>,
}

impl Outline {
    /// Reads the top level of a component.
    pub fn read(bytes: &[u8]) -> Result<Self, LoadError> {
        let malformed =
            |error: wasmparser::BinaryReaderError| LoadError::Malformed(one_line(&error.to_string()));
        let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0_usize);
        let note = |names: &mut Vec<String>, name: &str| match names.len() {
            NAMES_MAX => {
                Err(LoadError::Malformed(format!("it has more than {NAMES_MAX} imports or exports")))
            }
            _ => {
                names.push(plain(name).into_owned());
                Ok(())
            }
        };
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(malformed)? {
                Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                    return Err(LoadError::CoreModule);
                }
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(section) if depth == 0 => {
                    for import in section {
                        note(&mut imports, import.map_err(malformed)?.name.name)?;
                    }
                }
                Payload::ComponentExportSection(section) if depth == 0 => {
                    for export in section {
                        note(&mut exports, export.map_err(malformed)?.name.name)?;
                    }
                }
                _ => {}
            }
        }
        let contract = exports.iter().find_map(|name| name.strip_prefix(ADAPTER)).map(str::to_owned);
        Ok(Self { contract, imports, exports })
    }

    /// Whether this host can run it, judged by names alone.
    pub fn check(&self, profile: Profile) -> Result<(), LoadError> {
        match &self.contract {
            None => return Err(LoadError::NoAdapter),
            Some(version) if version != CONTRACT => {
                return Err(LoadError::WrongContract { found: version.clone(), known: CONTRACT });
            }
            Some(_) => {}
        }
        let granted = |import: &str| {
            let begins = |names: &[&str]| names.iter().any(|name| import.starts_with(name));
            begins(&GRANTED) || profile == Profile::Inert && begins(&INERT)
        };
        match self.imports.iter().find(|import| !granted(import)) {
            Some(import) => Err(LoadError::ForbiddenImport(import.clone())),
            None => Ok(()),
        }
    }
}

/// What runs, and what people approve: a component, and the rail file that it runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    pub component: Digest,
    pub file: Digest,
}

impl Pair {
    /// What is signed: both digests, under a name that keeps the signature from meaning anything else.
    pub fn signed_text(&self) -> Vec<u8> {
        format!("symphony rail\ncomponent {}\nfile {}\n", self.component, self.file).into_bytes()
    }
}

pub fn is_signed(pair: &Pair, signature: &[u8], trusted: &[[u8; 32]]) -> bool {
    let text = pair.signed_text();
    trusted.iter().any(|key| UnparsedPublicKey::new(&ED25519, key).verify(&text, signature).is_ok())
}

/// A message of parser or compiler, safe to show: it may run over several lines, and repeats names of the component.
pub(super) fn one_line(text: &str) -> String {
    plain(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}
