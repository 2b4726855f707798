//! What happened to one request, readable also after its call was cancelled half-way.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use verdict::witness::Sent;

#[derive(Debug, Default)]
pub(crate) struct SendProgress {
    /// The counter of the connection that got the request, and where it stood then.
    handed_over: Mutex<Option<(Arc<AtomicU64>, u64)>>,
    body: Arc<AtomicBool>,
    /// 0 as long as there is none.
    status: AtomicU16,
}

impl SendProgress {
    pub(crate) fn left(&self) -> Sent {
        match &*self.handed_over.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Sent::Nothing,
            Some((written, before))
                if self.body.load(Ordering::Acquire) && written.load(Ordering::Acquire) > *before =>
            {
                Sent::Body
            }
            // A call that was cancelled cannot know whether the connection still writes.
            Some(_) => Sent::Headers,
        }
    }

    pub(crate) fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Acquire)).filter(|status| *status > 0)
    }

    /// Set when the body was asked for.
    pub(super) fn body(&self) -> Arc<AtomicBool> {
        self.body.clone()
    }

    /// From here on the request may leave. Answers where the connection's counter stands.
    pub(super) fn hand_over(&self, written: &Arc<AtomicU64>) -> u64 {
        let before = written.load(Ordering::Acquire);
        *self.handed_over.lock().unwrap_or_else(PoisonError::into_inner) = Some((written.clone(), before));
        before
    }

    /// The connection failed without having written a byte.
    pub(super) fn hand_back(&self) {
        *self.handed_over.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn answered(&self, status: u16) {
        self.status.store(status, Ordering::Release);
    }

    /// All of it left, as far as anyone can tell.
    pub(super) fn left_whole(&self) {
        self.body.store(true, Ordering::Release);
        *self.handed_over.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Arc::new(AtomicU64::new(1)), 0));
    }
}
