//! SHA-256, as a name for bytes.

use std::fmt;
use std::io::{self, ErrorKind, Read};

use sha2::{Digest as _, Sha256};

/// So much of a file is in memory while its digest is taken.
const PIECE_BYTES: usize = 64 * 1024;

/// SHA-256 of a component, a rail file, a request or a reply: the name under which it is pinned, cached and recorded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Of all that a reader gives, piece by piece: a large file need not be in memory.
    pub fn of_reader(mut from: impl Read) -> io::Result<Self> {
        let mut sum = Sha256::new();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match from.read(&mut piece) {
                Ok(0) => return Ok(Self(sum.finalize().into())),
                Ok(bytes) => sum.update(&piece[..bytes]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads 64 hexadecimal characters.
    pub fn parse(text: &str) -> Option<Self> {
        let mut digest = [0; 32];
        hex::decode_to_slice(text, &mut digest).ok()?;
        Some(Self(digest))
    }

    /// None where there are not 32 of them.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Its 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
