//! What a request needs before it can be filled in: tokens, and keys that the rail publishes. And what is left to pay from.

use std::collections::BTreeMap;
use std::sync::Arc;

use form::Step;
use secrecy::SecretString;

use super::cached_value::Current;
use super::gate::HttpReply;
use super::key::Key;
use super::tokens::{Token, Tokens};

/// Longer ones are not answered.
const CHALLENGE_CHARS_MAX: usize = 512;

/// Tokens and published keys, for one request.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub tokens: BTreeMap<String, Carried>,
    pub keys: BTreeMap<String, Arc<Key>>,
}

/// A token that a request carries.
#[derive(Debug)]
pub(super) struct Carried {
    pub token: Current<Token>,
    /// This call fetched it.
    pub is_fresh: bool,
}

impl Session {
    pub(super) fn texts(&self) -> BTreeMap<String, SecretString> {
        self.tokens.iter().map(|(name, carried)| (name.clone(), carried.token.value.text.clone())).collect()
    }

    /// Whether all of its tokens were fetched by this call; none where it has none.
    pub(super) fn is_fresh(&self) -> Option<bool> {
        self.tokens.values().map(|carried| carried.is_fresh).reduce(|all, one| all && one)
    }

    /// The rail did not take its tokens.
    pub(super) fn reject(&self, tokens: &Tokens) {
        for (name, carried) in &self.tokens {
            tokens.reject(name, carried.token.generation);
        }
    }
}

/// What a reply wants an answer to, where its step says that it may.
pub(super) fn challenge(step: &Step, reply: &HttpReply) -> Option<String> {
    let challenge = step.challenge.as_ref().filter(|challenge| challenge.status == reply.status)?;
    let mut found = reply.headers.iter().filter(|(name, _)| *name == challenge.header);
    let (_, text) = found.next()?;
    let is_sound = text.len() <= CHALLENGE_CHARS_MAX
        && !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    (is_sound && found.next().is_none()).then(|| text.clone())
}
