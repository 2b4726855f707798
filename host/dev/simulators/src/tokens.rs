//! Sessions that end.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

#[derive(Debug)]
pub struct IssuedTokens {
    pub(crate) lifetime: Duration,
    ends: Mutex<HashMap<String, Instant>>,
    /// All that were ever given out.
    issued: Mutex<Vec<String>>,
}

impl IssuedTokens {
    pub(crate) fn new(lifetime: Duration) -> Self {
        Self { lifetime, ends: Mutex::default(), issued: Mutex::default() }
    }

    pub(crate) fn issue(&self) -> String {
        let token = Uuid::new_v4().simple().to_string();
        let now = Instant::now();
        let mut ends = self.ends();
        ends.retain(|_, end| *end > now);
        ends.insert(token.clone(), now + self.lifetime);
        self.issued.lock().unwrap_or_else(PoisonError::into_inner).push(token.clone());
        token
    }

    pub(crate) fn issued(&self) -> Vec<String> {
        self.issued.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn is_good(&self, token: &str) -> bool {
        self.ends().get(token).is_some_and(|end| *end > Instant::now())
    }

    pub(crate) fn expire(&self) {
        self.ends().clear();
    }

    fn ends(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
