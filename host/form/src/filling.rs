//! What stands in the place of each slot of one request.

use std::cell::OnceCell;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, FixedOffset, SecondsFormat};
use payment::Violation;

use crate::encoding::Encoding;
use crate::field::Writing;
use crate::file::Computed;
use crate::fill_error::FillError;
use crate::fit::{narrative, payload, payload_text};
use crate::form::Form;
use crate::input::Input;
use crate::json::Json;
use crate::profile::{
    MessageParameters, Unsigned, body_digest, cavage_header, cavage_text, jws_detached, jws_input,
};
use crate::slot::{Piece, Slot, SlotSource, Text, TimeForm};

/// One request on its way into the form.
pub(crate) struct Filling<'f> {
    pub(crate) form: &'f Form,
    pub(crate) input: &'f Input<'f>,
    /// Once it is written.
    pub(crate) body: Option<&'f [u8]>,
    /// All but the signatures over it, once that is written.
    pub(crate) unsigned: Option<Unsigned<'f>>,
    pub(crate) envelope: OnceCell<(String, String)>,
}
impl Filling<'_> {
    /// Whose fault it is that a value does not fit its place.
    pub(crate) fn unfit(&self, text: &Text, problem: &str) -> FillError {
        let of_payment = text.slots().find_map(|slot| match &slot.source {
            SlotSource::Destination { part, .. } => Some(format!("destination.{part}")),
            SlotSource::Narrative => Some("narrative".to_owned()),
            SlotSource::Payload(name) => Some(format!("payload.{name}")),
            _ => None,
        });
        let of_adapter = text.slots().any(|slot| matches!(slot.source, SlotSource::Adapter(_)));
        match of_payment {
            Some(field) => FillError::Payment(Violation::new(&field, problem)),
            None if of_adapter => FillError::Adapter(format!("{} {problem}", text.shown())),
            None => FillError::Ours(format!("{} {problem}", text.shown())),
        }
    }

    pub(crate) fn value(&self, slot: &Slot) -> Result<Option<String>, FillError> {
        let found = self.source(slot)?;
        let Some(value) = found else {
            return match slot.optional {
                true => Ok(None),
                false => Err(self.unfit(&Text(vec![Piece::Slot(slot.clone())]), "is missing")),
            };
        };
        let Some(table) = &slot.table else { return Ok(Some(value)) };
        let looked_up = self.form.tables.get(table).and_then(|table| table.get(&value)).cloned();
        looked_up.map(Some).ok_or_else(|| {
            self.unfit(&Text(vec![Piece::Slot(slot.clone())]), &format!("is not in the table {table}"))
        })
    }

    fn source(&self, slot: &Slot) -> Result<Option<String>, FillError> {
        let (form, payment) = (self.form, self.input.payment);
        Ok(match &slot.source {
            SlotSource::Key(key_form) => Some(payment.key.form(*key_form)),
            SlotSource::Amount { form: amount_form, is_number } => Some(
                form.amount_text(payment, *amount_form, *is_number)
                    .map_err(|problem| of_payment("amount", problem))?,
            ),
            SlotSource::Currency => Some(payment.money.currency().to_owned()),
            SlotSource::Destination { part, writing } => self.destination(part, *writing)?,
            SlotSource::Narrative => self.narrative()?,
            SlotSource::Payload(name) => self.payload(name)?,
            SlotSource::Setting(name) => form.settings.get(name).cloned(),
            SlotSource::Captured(name) => self.input.captured.get(name).cloned(),
            SlotSource::Adapter(name) => {
                self.input.values.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone())
            }
            SlotSource::Date => Some(day(self.local())),
            SlotSource::Time(time_form) => Some(self.time(*time_form)),
            SlotSource::AcceptedDate => Some(day(self.accepted())),
            SlotSource::AcceptedTime => Some(second(self.accepted())),
            SlotSource::Challenge => self.input.challenge.map(str::to_owned),
            // The rail has not asked.
            SlotSource::Computed(..) if self.input.challenge.is_none() && form.answers_challenge(slot) => {
                None
            }
            SlotSource::Secret(_) | SlotSource::Token(_) | SlotSource::Computed(..)
                if self.input.secrets.is_shown() =>
            {
                self.name_of_secret(&slot.source)
            }
            SlotSource::Secret(name) => Some(self.secret(name)?.to_owned()),
            SlotSource::Token(name) => Some(self.token(name)?.to_owned()),
            SlotSource::Computed(name, value) => Some(self.computed(name, value.as_deref())?),
            SlotSource::Callback => self.input.secrets.callback(payment.ids.outbox_id),
            SlotSource::Body => self.body.map(|body| String::from_utf8_lossy(body).into_owned()),
            SlotSource::Base => None,
        })
    }

    fn destination(&self, part: &str, writing: Writing) -> Result<Option<String>, FillError> {
        let Some(field) = self.form.parts.get(part) else { return Ok(None) };
        let Some(text) = self.form.part(&self.input.payment.destination, part) else { return Ok(None) };
        let name = format!("destination.{part}");
        let normal = field.check(text).map_err(|problem| of_payment(&name, problem))?;
        let written = field.write(&normal, writing);
        written.map(Some).ok_or_else(|| of_payment(&name, "cannot be written so".to_owned()))
    }

    fn narrative(&self) -> Result<Option<String>, FillError> {
        match (narrative(self.input.payment), &self.form.narrative) {
            (Some(text), Some(field)) => {
                field.check(text).map(Some).map_err(|problem| of_payment("narrative", problem))
            }
            _ => Ok(None),
        }
    }

    fn payload(&self, name: &str) -> Result<Option<String>, FillError> {
        let Some((at, field)) = self.form.payload.get(name) else { return Ok(None) };
        let wrong = |problem: String| of_payment(&format!("payload.{name}"), problem);
        match payload_text(&payload(self.input.payment), at) {
            Ok(None) => Ok(None),
            Ok(Some(text)) => field.check(&text).map(Some).map_err(wrong),
            Err(problem) => Err(wrong(problem.to_owned())),
        }
    }

    fn local(&self) -> DateTime<FixedOffset> {
        self.input.now.with_timezone(&self.form.offset)
    }

    fn time(&self, form: TimeForm) -> String {
        match form {
            TimeForm::Local => second(self.local()),
            TimeForm::Http => self.input.now.format("%a, %d %b %Y %H:%M:%S GMT").to_string(),
            TimeForm::Unix => self.input.now.timestamp().to_string(),
        }
    }

    /// An id of the outbox carries the moment of its acceptance.
    fn accepted(&self) -> DateTime<FixedOffset> {
        let carried = self.input.payment.ids.outbox_id.get_timestamp().map(|timestamp| timestamp.to_unix());
        let accepted = carried
            .and_then(|(seconds, nanos)| DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanos));
        accepted.unwrap_or(self.input.now).with_timezone(&self.form.offset)
    }

    /// For a reader who must not see the secret itself.
    fn name_of_secret(&self, source: &SlotSource) -> Option<String> {
        match source {
            SlotSource::Secret(name) => Some(format!("[secret {name}]")),
            SlotSource::Token(name) => Some(format!("[token {name}]")),
            SlotSource::Computed(name, value) => {
                let value = value.as_ref().map(|value| format!(".{value}")).unwrap_or_default();
                let over = self.form.over.get(name).map(|text| format!(" over {}", text.shown()));
                Some(format!("[{name}{value}{}]", over.unwrap_or_default()))
            }
            _ => None,
        }
    }

    fn secret(&self, name: &str) -> Result<&str, FillError> {
        self.input.secrets.secret(name).ok_or_else(|| FillError::Ours(format!("there is no secret {name}")))
    }

    fn token(&self, name: &str) -> Result<&str, FillError> {
        self.input.secrets.token(name).ok_or_else(|| FillError::Ours(format!("there is no token {name}")))
    }

    fn computed(&self, name: &str, value: Option<&str>) -> Result<String, FillError> {
        let secrets = self.input.secrets;
        let ours = |problem: String| of_computed(name, &problem);
        match self.form.computed.get(name) {
            None => Err(ours("is not in the file".to_owned())),
            Some(Computed::Basic { user, password }) => {
                Ok(STANDARD.encode(format!("{}:{}", self.secret(user)?, self.secret(password)?)))
            }
            Some(Computed::Encrypt { key, secret }) => {
                Ok(STANDARD.encode(secrets.encrypt(key, self.secret(secret)?.as_bytes()).map_err(ours)?))
            }
            Some(Computed::Hmac { key, encoding, .. }) => {
                Ok(encoded(*encoding, secrets.hmac(key, &self.over(name)?).map_err(ours)?))
            }
            Some(Computed::Sign { key, encoding, .. }) => {
                Ok(encoded(*encoding, secrets.sign(key, &self.over(name)?).map_err(ours)?))
            }
            Some(Computed::Digest { style }) => Ok(body_digest(*style, self.written_body().map_err(ours)?)),
            Some(Computed::HttpSignature { key, key_id, headers, algorithm }) => {
                let signature = self.sign_headers(key, headers).map_err(ours)?;
                Ok(cavage_header(key_id, algorithm, headers, &signature))
            }
            Some(Computed::MessageSignature { key, key_id, components, label, expires, tag, alg }) => {
                let parameters = MessageParameters {
                    components,
                    key_id,
                    created: self.input.now,
                    expires: *expires,
                    tag: tag.as_deref(),
                    alg: alg.as_deref(),
                };
                if value == Some("input") {
                    return Ok(format!("{label}={}", parameters.written()));
                }
                let signature = self.sign_message(key, &parameters).map_err(ours)?;
                Ok(format!("{label}=:{}:", STANDARD.encode(signature)))
            }
            Some(Computed::Jws { key, b64, .. }) => {
                let header = self.protected_header(name)?;
                self.sign_body(key, &header, *b64).map_err(ours)
            }
            Some(Computed::Envelope { key }) => {
                let (sealed, opener) = self.seal_body(key).map_err(ours)?;
                Ok(if value == Some("body") { sealed } else { opener })
            }
        }
    }

    /// By draft-cavage.
    fn sign_headers(&self, key: &str, headers: &[String]) -> Result<Vec<u8>, String> {
        let text = cavage_text(&self.unsigned()?, headers)
            .map_err(|lacking| format!("{lacking} is not in the request"))?;
        self.input.secrets.prove(key, text.as_bytes())
    }

    /// By RFC 9421.
    fn sign_message(&self, key: &str, parameters: &MessageParameters<'_>) -> Result<Vec<u8>, String> {
        let base = parameters
            .base(&self.unsigned()?)
            .map_err(|lacking| format!("{lacking} is not in the request"))?;
        self.input.secrets.prove(key, base.as_bytes())
    }

    fn protected_header(&self, name: &str) -> Result<Vec<u8>, FillError> {
        let header = match self.form.protected.get(name) {
            Some(template) => template.fill(&mut |slot: &Slot| self.value(slot))?,
            None => None,
        };
        let header = header.unwrap_or(Json::Object(Vec::new()));
        serde_json::to_vec(&header).map_err(|error| of_computed(name, &error.to_string()))
    }

    /// As a detached JWS.
    fn sign_body(&self, key: &str, header: &[u8], b64: bool) -> Result<String, String> {
        let (input, protected) = jws_input(header, self.written_body()?, b64);
        Ok(jws_detached(&protected, &self.input.secrets.prove(key, &input)?))
    }

    /// Once for a request: the sealed body and what opens it belong together.
    fn seal_body(&self, key: &str) -> Result<(String, String), String> {
        let body = self.written_body()?;
        if self.envelope.get().is_none() {
            let sealed = self.input.secrets.envelope(key, body)?;
            self.envelope.get_or_init(|| sealed);
        }
        Ok(self.envelope.get().cloned().unwrap_or_default())
    }

    fn written_body(&self) -> Result<&[u8], String> {
        self.body.ok_or_else(|| "the body is not written yet".to_owned())
    }

    fn unsigned(&self) -> Result<Unsigned<'_>, String> {
        self.unsigned.ok_or_else(|| "the headers are not written yet".to_owned())
    }

    /// What is signed, byte for byte.
    fn over(&self, name: &str) -> Result<Vec<u8>, FillError> {
        let Some(text) = self.form.over.get(name) else { return Ok(Vec::new()) };
        let is_body = matches!(&text.0[..], [Piece::Slot(slot)] if slot.source == SlotSource::Body);
        if is_body {
            return Ok(self.body.unwrap_or_default().to_vec());
        }
        match text.fill(&mut |slot: &Slot| self.value(slot), str::to_owned)? {
            Some(filled) => Ok(filled.into_bytes()),
            None => Err(FillError::Ours(format!("computed.{name}: what is to be signed is not there"))),
        }
    }
}

fn of_payment(field: &str, problem: String) -> FillError {
    FillError::Payment(Violation::new(field, problem))
}

fn of_computed(name: &str, problem: &str) -> FillError {
    FillError::Ours(format!("computed.{name}: {problem}"))
}

fn encoded(encoding: Encoding, bytes: Vec<u8>) -> String {
    match encoding {
        Encoding::Base64 => STANDARD.encode(bytes),
        Encoding::Hex => hex::encode(bytes),
    }
}

fn day(time: DateTime<FixedOffset>) -> String {
    time.format("%Y-%m-%d").to_string()
}

/// To the second.
fn second(time: DateTime<FixedOffset>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, false)
}
