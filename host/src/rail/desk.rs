//! What one call has in hand: where it stands at the gate, the handles it was given, the tokens it is out for.

use std::collections::BTreeMap;
use std::sync::Arc;

use secrecy::ExposeSecret;
use uuid::Uuid;

use super::egress::fill::{self, Handle, Veil};
use super::egress::rules::Endpoint;
use super::egress::{Failure, Gate, Outgoing, Passage, Reply, scrubbed};
use super::tokens::{Asked, Errand, Token, Tokens};
use super::vault::{Problem, Vault};

/// What all calls of a loaded rail share.
#[derive(Debug)]
pub(super) struct Inside {
    pub settings: BTreeMap<String, String>,
    pub gate: Gate,
    pub vault: Vault,
    pub tokens: Tokens,
}

#[derive(Debug)]
pub(super) struct Desk {
    inside: Arc<Inside>,
    pub passage: Passage,
    handles: Vec<Handle>,
    token_handles: Vec<TokenHandle>,
    errands: Vec<(String, Errand)>,
    /// Over what was put together from secrets for this call.
    composed: Vec<Veil>,
}

/// Which token a handle stands for, and whether this call fetched it.
#[derive(Debug)]
struct TokenHandle {
    text: String,
    name: String,
    generation: u64,
    fresh: bool,
}

impl Desk {
    pub(super) fn new(inside: Arc<Inside>, passage: Passage) -> Self {
        Self {
            inside,
            passage,
            handles: Vec::new(),
            token_handles: Vec::new(),
            errands: Vec::new(),
            composed: Vec::new(),
        }
    }

    /// Sends a request through the gate. The reply holds no secret.
    pub(super) async fn send(&mut self, outgoing: Outgoing) -> Result<Reply, Failure> {
        let inside = self.inside.clone();
        let fresh = |used: &[String]| {
            self.token_handles
                .iter()
                .filter(|handle| used.contains(&handle.name))
                .map(|handle| handle.fresh)
                .next_back()
        };
        let passed = inside.gate.pass(&mut self.passage, &self.handles, fresh, outgoing).await?;
        if !passed.composed.is_empty() {
            self.composed.push(Veil::over(&passed.composed));
        }
        let mut reply = passed.reply;
        self.settle_tokens(passed.endpoint, &passed.used, &mut reply);
        let tokens = inside.tokens.veils();
        Ok(scrubbed(reply, &self.veils(&tokens)))
    }

    /// A handle of a secret, the same one each time.
    pub(super) fn handle(&mut self, name: String) -> Result<String, Problem> {
        if let Some(handle) = self.handles.iter().find(|handle| handle.name == name) {
            return Ok(handle.text.clone());
        }
        let Some(value) = self.inside.vault.secret(&name) else { return Err(Problem::Unknown(name)) };
        let handle = Handle { text: new_handle(), name, value: value.clone() };
        let text = handle.text.clone();
        self.handles.push(handle);
        Ok(text)
    }

    /// A handle of the token, or nothing for a call that is to fetch it.
    pub(super) async fn token(&mut self, name: String) -> Result<Option<String>, Problem> {
        if self.errands.iter().any(|(errand, _)| *errand == name) {
            return Ok(None);
        }
        let inside = self.inside.clone();
        match inside.tokens.ask(&name).await {
            None => Err(Problem::Unknown(name)),
            Some(Asked::Fetch(errand)) => {
                self.errands.push((name, errand));
                Ok(None)
            }
            Some(Asked::Ready(token)) => {
                let known =
                    |handle: &&TokenHandle| handle.name == name && handle.generation == token.generation;
                if let Some(handle) = self.token_handles.iter().find(known) {
                    return Ok(Some(handle.text.clone()));
                }
                Ok(Some(self.token_handle(&name, token, false)))
            }
        }
    }

    /// The rail does not take this token any more.
    pub(super) fn reject(&self, handle: &str) {
        if let Some(handle) = self.token_handles.iter().find(|known| known.text == handle) {
            self.inside.tokens.reject(&handle.name, handle.generation);
        }
    }

    /// Text that came from the guest or the rail, with nothing in it that must not be seen.
    pub(super) fn safe(&self, text: &str) -> String {
        match text.is_empty() {
            true => String::new(),
            false => self.veiled(|veils| fill::scrub_text(text, veils)),
        }
    }

    /// Gives what lies over all that must not show: the rail's secrets, its tokens of this moment, and what this call made
    /// of them.
    pub(super) fn veiled<T>(&self, with: impl FnOnce(&[&Veil]) -> T) -> T {
        let tokens = self.inside.tokens.veils();
        with(&self.veils(&tokens))
    }

    fn veils<'a>(&'a self, tokens: &'a [Arc<Veil>]) -> Vec<&'a Veil> {
        let own = self.composed.iter().chain(tokens.iter().map(AsRef::as_ref));
        std::iter::once(self.inside.vault.veil()).chain(own).collect()
    }

    /// What the rail said about tokens: the ones that a session's reply brought, the ones that it no longer takes.
    fn settle_tokens(&mut self, endpoint: &Endpoint, used: &[String], reply: &mut Reply) {
        if endpoint.is_session() && (200..300).contains(&reply.status) {
            let names: Vec<String> = self.inside.tokens.brought_by(&endpoint.name).cloned().collect();
            for name in names {
                let Some(token) = self.inside.tokens.take(&name, &reply.body) else { continue };
                let value = token.value.clone();
                let handle = self.token_handle(&name, token, true);
                reply.body = fill::replace(&reply.body, value.expose_secret().as_bytes(), handle.as_bytes());
                self.errands.retain(|(errand, _)| *errand != name);
            }
        }
        if matches!(reply.status, 401 | 403) {
            for handle in self.token_handles.iter().filter(|handle| used.contains(&handle.name)) {
                self.inside.tokens.reject(&handle.name, handle.generation);
            }
        }
    }

    fn token_handle(&mut self, name: &str, token: Token, fresh: bool) -> String {
        let text = new_handle();
        self.handles.push(Handle { text: text.clone(), name: name.to_owned(), value: token.value });
        self.token_handles.push(TokenHandle {
            text: text.clone(),
            name: name.to_owned(),
            generation: token.generation,
            fresh,
        });
        text
    }
}

/// Unguessable, and worth nothing in another call.
fn new_handle() -> String {
    format!("handle-{}", Uuid::new_v4().simple())
}
