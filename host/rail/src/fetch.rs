//! What a request needs first is fetched: tokens, published keys, earlier steps; and what is left to pay from.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::Utc;
use form::{Step, StepClass};

use super::cached_value::Lookup;
use super::call::Call;
use super::call_report::Captures;
use super::gate::HttpReply;
use super::key::Key;
use super::loaded::Loaded;
use super::sandbox::Sandbox;
use super::session::{Carried, Session};
use verdict::answer::CallResult;

/// What is shown of a reply that brought nothing.
const EXCERPT_CHARS: usize = 300;

impl Call<'_> {
    /// Everything that a request of a step needs, fetched by one call for all.
    pub(super) async fn session(&mut self, step: &Step) -> Result<Session, CallResult> {
        let form = self.loaded.form.clone();
        let mut session = self.with_tokens(step).await?;
        for name in form.keys_of(step) {
            if let Some(key) = self.key(name).await? {
                session.keys.insert(name.to_owned(), key);
            }
        }
        Ok(session)
    }

    async fn with_tokens(&mut self, step: &Step) -> Result<Session, CallResult> {
        let form = self.loaded.form.clone();
        let mut session = Session::default();
        for name in form.tokens_of(step) {
            let carried = self.token(name).await?;
            self.secret_filters.push(carried.token.value.secret_filter.clone());
            session.tokens.insert(name.to_owned(), carried);
        }
        Ok(session)
    }

    async fn token(&mut self, name: &str) -> Result<Carried, CallResult> {
        let loaded = self.loaded;
        let unsent = |why: String| CallResult::Unanswered(format!("no token: {why}"));
        let _duty = match loaded.tokens.ask(name).await {
            None => return Err(unsent(format!("{name} is not in the rail file"))),
            Some(Lookup::Ready(token)) => return Ok(Carried { token, is_fresh: false }),
            Some(Lookup::Fetch(duty)) => duty,
        };
        let step = loaded.tokens.step(name).and_then(|step| loaded.form.step(step));
        let step = step.ok_or_else(|| unsent(format!("no step brings {name}")))?;
        let reply = self.fetch(step, &Session::default(), unsent).await?;
        match loaded.tokens.take(name, &reply.body) {
            Some(token) => Ok(Carried { token, is_fresh: true }),
            None => Err(unsent(format!("the reply of {} has none where the rail file says", step.name))),
        }
    }

    /// None where it is not one that is fetched.
    async fn key(&mut self, name: &str) -> Result<Option<Arc<Key>>, CallResult> {
        let loaded = self.loaded;
        let unsent = |why: String| CallResult::Unanswered(format!("no key {name}: {why}"));
        let _duty = match loaded.published.ask(name).await {
            None => return Ok(None),
            Some(Lookup::Ready(key)) => return Ok(Some(key.value)),
            Some(Lookup::Fetch(duty)) => duty,
        };
        let step = loaded.published.step(name).and_then(|step| loaded.form.step(step));
        let step = step.ok_or_else(|| unsent("no step brings it".to_owned()))?;
        let session = self.with_tokens(step).await?;
        let reply = self.fetch(step, &session, unsent).await?;
        // Ours to mend: somebody has to approve the key, or the rail has to publish another one.
        let taken = loaded.published.take(name, &reply.body, Utc::now());
        taken
            .map(|key| Some(key.value))
            .map_err(|why| CallResult::Unready(format!("no key {name}: {}", self.safe(&why))))
    }

    /// Makes a request that is about no payment; a reply that is not a 2xx is none.
    async fn fetch(
        &mut self,
        step: &Step,
        session: &Session,
        unsent: impl Fn(String) -> CallResult,
    ) -> Result<HttpReply, CallResult> {
        let written = self.fill(step, &[], session, None, Utc::now())?;
        let loaded = self.loaded;
        let reply = loaded.gate.send(&mut self.call_log, step.class, written, session.is_fresh()).await;
        let reply = reply.map_err(|why| unsent(self.safe(&why)))?;
        if matches!(reply.status, 401 | 403) {
            session.reject(&loaded.tokens);
        }
        if !(200..300).contains(&reply.status) {
            // Without secrets first, then short: a secret across the cut would be shown but for its end.
            let said = self.safe(&String::from_utf8_lossy(&reply.body));
            let said: String = said.chars().take(EXCERPT_CHARS).collect();
            return Err(unsent(format!("HTTP {}: {said}", reply.status)));
        }
        Ok(reply)
    }
}

impl Loaded {
    /// What is left to pay from in a currency, in its smallest unit, as the rail says. The error is safe to show.
    pub async fn balance(&self, sandbox: &Sandbox, currency: &str) -> Result<i128, String> {
        let float = self.form.float.get(currency).ok_or_else(|| format!("float has no {currency}"))?;
        let step = self.form.step(&float.step).ok_or_else(|| format!("there is no step {}", float.step))?;
        debug_assert_eq!(step.class, StepClass::Balance);
        // Nothing of a payment is in such a request.
        let nobody = Arc::new(self.form.example_payment(currency)?);
        let nothing = BTreeMap::new();
        let mut call = Call::new(self, sandbox, nobody, None, Captures::knowing(&nothing));
        let asked = async {
            let session = call.session(step).await?;
            call.fetch(step, &session, CallResult::Unanswered).await
        };
        let said = |heard: CallResult| match heard {
            CallResult::Unanswered(why) | CallResult::Unready(why) | CallResult::Refused(why) => why,
            other => other.to_string(),
        };
        match tokio::time::timeout(self.timeouts.call(), asked).await {
            Ok(reply) => self.form.float_left(currency, &reply.map_err(said)?.body),
            Err(_) => Err(format!("no answer within {} ms", self.timeouts.call().as_millis())),
        }
    }
}
