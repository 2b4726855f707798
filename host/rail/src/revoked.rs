//! Components that may not speak any more.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use verdict::digest::Digest;

/// Shared by all rails of a host. None is ever taken back.
#[derive(Debug, Default)]
pub(crate) struct Revoked(RwLock<BTreeSet<Digest>>);

impl Revoked {
    pub(super) fn contains(&self, digest: &Digest) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(digest)
    }

    pub(super) fn add(&self, digests: &[Digest]) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).extend(digests);
    }
}
