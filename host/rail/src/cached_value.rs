//! A value of the rail's that ends: fetched by one call at a time, used by all, renewed before its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OwnedMutexGuard;

#[derive(Debug)]
pub(super) struct Renewed<T> {
    /// Held by the call that fetches.
    fetching: Arc<tokio::sync::Mutex<()>>,
    held: Mutex<Option<Current<T>>>,
}

#[derive(Debug, Clone)]
pub(super) struct Current<T> {
    pub value: T,
    /// Tells one value from its successor.
    pub generation: u64,
    fresh_until: Instant,
}

/// Permits one call to fetch. Dropped without a value, the next call gets it.
pub(super) type FetchPermit = OwnedMutexGuard<()>;

pub(super) enum Lookup<T> {
    Ready(Current<T>),
    Fetch(FetchPermit),
}

impl<T> Default for Renewed<T> {
    fn default() -> Self {
        Self { fetching: Arc::default(), held: Mutex::default() }
    }
}

impl<T: Clone> Renewed<T> {
    /// The value, or the permit to fetch it; waits while another call fetches it.
    pub(super) async fn ask(&self) -> Lookup<T> {
        if let Some(current) = self.current() {
            return Lookup::Ready(current);
        }
        let permit = self.fetching.clone().lock_owned().await;
        match self.current() {
            Some(current) => Lookup::Ready(current),
            None => Lookup::Fetch(permit),
        }
    }

    pub(super) fn hold(&self, value: T, usable: Duration) -> Current<T> {
        let mut held = self.held();
        let generation = held.as_ref().map_or(0, |current| current.generation) + 1;
        let current = Current { value, generation, fresh_until: Instant::now() + usable };
        *held = Some(current.clone());
        current
    }

    /// Forgets a value, unless a newer one has come.
    pub(super) fn reject(&self, generation: u64) {
        if let Some(current) = self.held().as_mut().filter(|current| current.generation == generation) {
            current.fresh_until = Instant::now();
        }
    }

    /// The last one, whether or not it has ended.
    pub(super) fn last(&self) -> Option<T> {
        self.held().as_ref().map(|current| current.value.clone())
    }

    fn current(&self) -> Option<Current<T>> {
        self.held().as_ref().filter(|current| current.fresh_until > Instant::now()).cloned()
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Current<T>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
