//! What may be seen of a call: names in the place of secrets in its requests, none of them in its replies, and digests of both.

use chrono::{DateTime, Utc};
use form::{Input, Shown, Step};

use super::call::Call;
use super::call_report::{RecordedExchange, RecordedReply};
use super::gate::HttpReply;
use super::gate::secret_filter::{SecretFilter, holds_secret, scrub_text};
use verdict::digest::Digest;

impl Call<'_> {
    /// Before a request leaves: what may be seen of it.
    pub(super) fn begin_record(&mut self, step: &str, shown: Vec<u8>) {
        self.request_digest = (!shown.is_empty()).then(|| Digest::of(&shown));
        self.reply_digest = None;
        if self.loaded.is_recorded {
            self.recorded.push(RecordedExchange { step: step.to_owned(), request: shown, reply: None });
        }
    }

    pub(super) fn heard(&mut self, reply: &HttpReply) {
        let whole = reply.whole();
        self.reply_holds_secret = self.with_filters(|secret_filters| holds_secret(&whole, secret_filters));
        let safe = |bytes: &[u8]| match self.reply_holds_secret {
            false => bytes.to_vec(),
            true => self.safe(&String::from_utf8_lossy(bytes)).into_bytes(),
        };
        let digest = match self.reply_holds_secret {
            false => Digest::of(&whole),
            true => Digest::of(&safe(&whole)),
        };
        let kept = self.loaded.is_recorded.then(|| RecordedReply {
            status: reply.status,
            headers: reply.headers.iter().map(|(name, value)| (name.clone(), self.safe(value))).collect(),
            body: safe(&reply.body),
        });
        self.reply_digest = Some(digest);
        if let (Some(last), Some(kept)) = (self.recorded.last_mut(), kept) {
            last.reply = Some(kept);
        }
    }

    /// What may be seen of a request.
    pub(super) fn shown(
        &self,
        step: &Step,
        values: &[(String, String)],
        written: &form::FilledRequest,
        challenge: Option<&str>,
        now: DateTime<Utc>,
    ) -> Vec<u8> {
        let captured = &self.captured;
        let input = Input { payment: &self.payment, values, captured, secrets: &Shown, challenge, now };
        self.loaded.form.shown(step, &input, written).unwrap_or_default()
    }

    /// A text of the rail with nothing in it that must not be seen.
    pub(super) fn safe(&self, text: &str) -> String {
        self.with_filters(|secret_filters| scrub_text(text, secret_filters))
    }

    fn with_filters<T>(&self, with: impl FnOnce(&[&SecretFilter]) -> T) -> T {
        let tokens = self.loaded.tokens.secret_filters();
        let secret_filters: Vec<&SecretFilter> = std::iter::once(self.loaded.vault.secret_filter())
            .chain(tokens.iter().chain(&self.secret_filters).map(AsRef::as_ref))
            .collect();
        with(&secret_filters)
    }
}
