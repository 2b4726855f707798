//! Access tokens of one rail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use form::json::Json;
use secrecy::SecretString;

use super::cached_value::{Current, Lookup, Renewed};
use super::definition::TokenRule;
use super::gate::secret_filter::SecretFilter;

/// Longer values are not tokens.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// A rail that promises more is not believed.
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug)]
pub(super) struct Tokens {
    slots: BTreeMap<String, CachedToken>,
    /// They are good for ever, whatever a rail says: there is no session that would bring others.
    is_made_up: bool,
}

#[derive(Debug)]
struct CachedToken {
    rule: TokenRule,
    token: Renewed<Token>,
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub text: SecretString,
    pub secret_filter: Arc<SecretFilter>,
}

impl Tokens {
    pub(super) fn new(rules: &BTreeMap<String, TokenRule>) -> Self {
        let slot = |rule: &TokenRule| CachedToken { rule: rule.clone(), token: Renewed::default() };
        let slots = rules.iter().map(|(name, rule)| (name.clone(), slot(rule))).collect();
        Self { slots, is_made_up: false }
    }

    /// For conformance tests: every token that the rail file names, with values that exist nowhere else.
    pub(super) fn made_up(rules: &BTreeMap<String, TokenRule>) -> Self {
        let tokens = Self::new(rules);
        for (name, slot) in &tokens.slots {
            slot.hold(format!("canary-{name}-{}", uuid::Uuid::new_v4().simple()), LIFETIME_MAX);
        }
        Self { is_made_up: true, ..tokens }
    }

    /// The step that brings a token.
    pub(super) fn step(&self, name: &str) -> Option<&str> {
        self.slots.get(name).map(|slot| slot.rule.step.as_str())
    }

    /// The token, or the duty to fetch it; none where the rail file has no such token.
    pub(super) async fn ask(&self, name: &str) -> Option<Lookup<Token>> {
        Some(self.slots.get(name)?.token.ask().await)
    }

    /// Takes a token from a reply. None if it is not where the rail file says, or is no token.
    pub(super) fn take(&self, name: &str, reply: &[u8]) -> Option<Current<Token>> {
        let slot = self.slots.get(name)?;
        let reply = Json::read(reply).ok()?;
        let Some(Json::Text(value)) = reply.at(&slot.rule.value) else { return None };
        let value = Some(value)
            .filter(|value| !value.is_empty() && value.len() <= TOKEN_BYTES_MAX)
            // It stands in a header.
            .filter(|value| value.bytes().all(|byte| byte.is_ascii_graphic()))?;
        let seconds: u64 = match reply.at(&slot.rule.lifetime)? {
            Json::Number(digits) | Json::Text(digits) => digits.parse().ok()?,
            _ => return None,
        };
        let lifetime = Duration::from_secs(seconds).min(LIFETIME_MAX);
        // A token that lives shorter than the margin is used for half its life.
        let usable =
            lifetime.saturating_sub(Duration::from_secs(slot.rule.early_seconds.into())).max(lifetime / 2);
        Some(slot.hold(value.to_owned(), usable))
    }

    /// Forgets a token, unless a newer one has come.
    pub(super) fn reject(&self, name: &str, generation: u64) {
        if let Some(slot) = self.slots.get(name).filter(|_| !self.is_made_up) {
            slot.token.reject(generation);
        }
    }

    /// Over the values that must not show anywhere.
    pub(super) fn secret_filters(&self) -> Vec<Arc<SecretFilter>> {
        self.slots.values().filter_map(|slot| slot.token.last()).map(|token| token.secret_filter).collect()
    }
}

impl CachedToken {
    fn hold(&self, text: String, usable: Duration) -> Current<Token> {
        let text: SecretString = text.into();
        let secret_filter = Arc::new(SecretFilter::over([&text]));
        self.token.hold(Token { text, secret_filter }, usable)
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn tokens() -> Tokens {
        let rule: TokenRule =
            toml::from_str("step = \"token\"\nvalue = \"/access_token\"\nlifetime = \"/expires_in\"")
                .expect("TOML");
        Tokens::new(&BTreeMap::from([("access".to_owned(), rule)]))
    }

    fn ready(asked: Option<Lookup<Token>>) -> Option<Current<Token>> {
        match asked {
            Some(Lookup::Ready(token)) => Some(token),
            _ => None,
        }
    }

    #[tokio::test]
    async fn one_call_fetches_and_the_others_wait_for_it() {
        let tokens = Arc::new(tokens());
        let Some(Lookup::Fetch(permit)) = tokens.ask("access").await else { panic!("there is no token yet") };
        let waiting = tokio::spawn({
            let tokens = tokens.clone();
            async move {
                ready(tokens.ask("access").await).map(|token| token.value.text.expose_secret().to_owned())
            }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        tokens.take("access", br#"{"access_token": "t-1", "expires_in": "3600"}"#).expect("a token");
        drop(permit);
        assert_eq!(waiting.await.expect("no panic").as_deref(), Some("t-1"));
        assert!(tokens.ask("unknown").await.is_none());
    }

    #[tokio::test]
    async fn an_errand_that_brings_nothing_goes_to_the_next() {
        let tokens = tokens();
        let Some(Lookup::Fetch(permit)) = tokens.ask("access").await else { panic!("there is no token yet") };
        assert!(tokens.take("access", br#"{"error": "no"}"#).is_none());
        assert!(tokens.take("access", br#"{"access_token": "t", "expires_in": -1}"#).is_none());
        drop(permit);
        assert!(matches!(tokens.ask("access").await, Some(Lookup::Fetch(_))));
    }

    #[tokio::test]
    async fn a_rejected_token_is_gone_but_not_its_successor() {
        let tokens = tokens();
        let first =
            tokens.take("access", br#"{"access_token": "t-1", "expires_in": 3600}"#).expect("a token");
        tokens.reject("access", first.generation);
        assert!(ready(tokens.ask("access").await).is_none());
        tokens.take("access", br#"{"access_token": "t-2", "expires_in": 3600}"#).expect("a token");
        tokens.reject("access", first.generation);
        assert_eq!(ready(tokens.ask("access").await).map(|token| token.generation), Some(2));
    }
}
