//! A payment in, a request or a named refusal out. Pure: the same form, payment, values and secrets give the same bytes.

use std::borrow::Cow;
use std::cell::OnceCell;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, FixedOffset, SecondsFormat};
use payment::Violation;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::encoding::Encoding;
use crate::file::Computed;
use crate::fit::{narrative, payload, payload_text};
use crate::form::Form;
use crate::input::Input;
use crate::json::Json;
use crate::profile::{
    MessageParameters, Unsigned, body_digest, cavage_header, cavage_text, jws_detached, jws_input,
};
use crate::refusal::Refusal;
use crate::request::{RequestTemplate, Target, is_header};
use crate::shown::Shown;
use crate::slot::{Slot, Source, Text, TimeForm};
use crate::step::Step;
use crate::template::Body;

/// A request, ready to leave.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    pub step: String,
    pub method: String,
    pub target: Target,
    /// With its query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// It holds secrets: nobody gets to see more than where it goes.
impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("step", &self.step)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

/// All but letters, digits and `-._~`.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl Form {
    /// Writes the request of a step.
    pub fn fill(&self, step: &Step, input: &Input<'_>) -> Result<Request, Refusal> {
        let template = step
            .request
            .as_ref()
            .ok_or_else(|| Refusal::Ours(format!("{} has no request: a mock has no network", step.name)))?;
        if template.has_variables() {
            self.check_variables(input.values)?;
        }
        let filling = Filling { form: self, input, body: None, unsigned: None, envelope: OnceCell::new() };
        let body = filling.body(&template.body)?;
        let filling = Filling { body: Some(&body), ..filling };
        let path = filling.address(template)?;
        let is_signature = |text: &Text| {
            text.slots()
                .any(|slot| matches!(&slot.source, Source::Computed(name, _) if self.signs_headers(name)))
        };
        let mut headers = filling.headers(template, |text| !is_signature(text))?;
        let unsigned =
            Unsigned { method: &template.method, target: &template.target, path: &path, headers: &headers };
        let signatures = Filling { unsigned: Some(unsigned), ..filling }.headers(template, is_signature)?;
        headers.extend(signatures);
        Ok(Request {
            step: step.name.clone(),
            method: template.method.clone(),
            target: template.target.clone(),
            path,
            headers,
            body,
        })
    }
}

impl Form {
    /// A request that was written, with names in the place of secrets, in one piece: a digest over a short secret would tell it. Only
    /// what holds one is written once more.
    pub fn shown(&self, step: &Step, input: &Input<'_>, request: &Request) -> Result<Vec<u8>, Refusal> {
        let Some(template) = &step.request else { return Ok(Vec::new()) };
        let input = Input { secrets: &Shown, ..*input };
        let filling = Filling {
            form: self,
            input: &input,
            body: Some(&request.body),
            unsigned: None,
            envelope: OnceCell::new(),
        };
        let body = match template.hides_body() {
            true => Cow::Owned(filling.body(&template.body)?),
            false => Cow::Borrowed(request.body.as_slice()),
        };
        let path = match template.hides_address() {
            true => Cow::Owned(filling.address(template)?),
            false => Cow::Borrowed(request.path.as_str()),
        };
        let mut whole = Vec::with_capacity(512 + body.len());
        whole.extend_from_slice(
            format!("{} {}://{}{path}\n", request.method, request.target.scheme, request.target.authority())
                .as_bytes(),
        );
        for (name, value) in &request.headers {
            let text = template.headers.iter().find(|(known, _)| known == name).map(|(_, text)| text);
            let shown = match text.filter(|text| text.hides()) {
                None => Some(Cow::Borrowed(value.as_str())),
                Some(text) => {
                    text.fill(&mut |slot: &Slot| filling.value(slot), str::to_owned)?.map(Cow::Owned)
                }
            };
            if let Some(shown) = shown {
                whole.extend_from_slice(format!("{name}: {shown}\n").as_bytes());
            }
        }
        whole.push(b'\n');
        whole.extend_from_slice(&body);
        Ok(whole)
    }
}

/// One request on its way into the form.
struct Filling<'f> {
    form: &'f Form,
    input: &'f Input<'f>,
    /// Once it is written.
    body: Option<&'f [u8]>,
    /// All but the signatures over it, once that is written.
    unsigned: Option<Unsigned<'f>>,
    envelope: OnceCell<(String, String)>,
}

impl Filling<'_> {
    fn body(&self, body: &Body) -> Result<Vec<u8>, Refusal> {
        let value = &mut |slot: &Slot| self.value(slot);
        match body {
            Body::None => Ok(Vec::new()),
            Body::Json(template) => {
                let json = template.fill(value)?.unwrap_or(Json::Object(Vec::new()));
                serde_json::to_vec(&json).map_err(|error| Refusal::Ours(error.to_string()))
            }
            Body::Xml(element) => element.fill(value),
            Body::Form(pairs) => {
                let mut written = Vec::new();
                for (name, text) in pairs {
                    if let Some(filled) = text.fill(value, str::to_owned)? {
                        written.push(format!("{}={}", escaped(name), escaped(&filled)));
                    }
                }
                Ok(written.join("&").into_bytes())
            }
        }
    }

    fn address(&self, template: &RequestTemplate) -> Result<String, Refusal> {
        let value = &mut |slot: &Slot| self.value(slot);
        let mut path = String::new();
        for segment in &template.path {
            let filled = segment.fill(value, escaped)?.unwrap_or_default();
            // Such a segment leads elsewhere.
            if segment.constant().is_none() && matches!(filled.as_str(), "" | "." | "..") {
                return Err(self.unfit(segment, "makes no path"));
            }
            path.push('/');
            path.push_str(&filled);
        }
        let mut separator = '?';
        for (name, text) in &template.query {
            if let Some(filled) = text.fill(value, escaped)? {
                path.push(separator);
                path.push_str(&format!("{name}={filled}"));
                separator = '&';
            }
        }
        Ok(path)
    }

    fn headers(
        &self,
        template: &RequestTemplate,
        of: impl Fn(&Text) -> bool,
    ) -> Result<Vec<(String, String)>, Refusal> {
        let mut headers = Vec::new();
        for (name, text) in template.headers.iter().filter(|(_, text)| of(text)) {
            let Some(filled) = text.fill(&mut |slot: &Slot| self.value(slot), str::to_owned)? else {
                continue;
            };
            if filled.is_empty() || !is_header(&filled) {
                return Err(self.unfit(text, &format!("does not fit the header {name}: visible ASCII only")));
            }
            headers.push((name.clone(), filled));
        }
        Ok(headers)
    }

    /// Whose fault it is that a value does not fit its place.
    fn unfit(&self, text: &Text, problem: &str) -> Refusal {
        let of_payment = text.slots().find_map(|slot| match &slot.source {
            Source::Destination { part, .. } => Some(format!("destination.{part}")),
            Source::Narrative => Some("narrative".to_owned()),
            Source::Payload(name) => Some(format!("payload.{name}")),
            _ => None,
        });
        let of_adapter = text.slots().any(|slot| matches!(slot.source, Source::Adapter(_)));
        match of_payment {
            Some(field) => Refusal::Payment(Violation::new(&field, problem)),
            None if of_adapter => Refusal::Adapter(format!("{} {problem}", text.shown())),
            None => Refusal::Ours(format!("{} {problem}", text.shown())),
        }
    }

    fn value(&self, slot: &Slot) -> Result<Option<String>, Refusal> {
        let found = self.source(slot)?;
        let Some(value) = found else {
            return match slot.optional {
                true => Ok(None),
                false => Err(self.unfit(&Text(vec![crate::slot::Piece::Slot(slot.clone())]), "is missing")),
            };
        };
        let Some(table) = &slot.table else { return Ok(Some(value)) };
        let looked_up = self.form.tables.get(table).and_then(|table| table.get(&value)).cloned();
        looked_up.map(Some).ok_or_else(|| {
            self.unfit(
                &Text(vec![crate::slot::Piece::Slot(slot.clone())]),
                &format!("is not in the table {table}"),
            )
        })
    }

    fn source(&self, slot: &Slot) -> Result<Option<String>, Refusal> {
        let (form, payment, secrets) = (self.form, self.input.payment, self.input.secrets);
        let of_payment = |field: &str, problem: String| Refusal::Payment(Violation::new(field, problem));
        let local = || self.input.now.with_timezone(&form.offset);
        Ok(match &slot.source {
            Source::Key(key_form) => Some(payment.key.form(*key_form)),
            Source::Amount { form: amount_form, is_number } => Some(
                form.amount_text(payment, *amount_form, *is_number)
                    .map_err(|problem| of_payment("amount", problem))?,
            ),
            Source::Currency => Some(payment.money.currency().to_owned()),
            Source::Destination { part, writing } => {
                let Some(field) = form.parts.get(part) else { return Ok(None) };
                let Some(text) = form.part(&payment.destination, part) else { return Ok(None) };
                let name = format!("destination.{part}");
                let normal = field.check(text).map_err(|problem| of_payment(&name, problem))?;
                let written = field.write(&normal, *writing);
                Some(written.ok_or_else(|| of_payment(&name, "cannot be written so".to_owned()))?)
            }
            Source::Narrative => match (narrative(payment), &form.narrative) {
                (Some(text), Some(field)) => {
                    Some(field.check(text).map_err(|problem| of_payment("narrative", problem))?)
                }
                _ => None,
            },
            Source::Payload(name) => {
                let Some((at, field)) = form.payload.get(name) else { return Ok(None) };
                let field_name = format!("payload.{name}");
                match payload_text(&payload(payment), at) {
                    Ok(None) => None,
                    Ok(Some(text)) => {
                        Some(field.check(&text).map_err(|problem| of_payment(&field_name, problem))?)
                    }
                    Err(problem) => return Err(of_payment(&field_name, problem.to_owned())),
                }
            }
            Source::Setting(name) => form.settings.get(name).cloned(),
            Source::Captured(name) => self.input.captured.get(name).cloned(),
            Source::Adapter(name) => {
                self.input.values.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone())
            }
            Source::Date => Some(local().format("%Y-%m-%d").to_string()),
            Source::Time(TimeForm::Local) => Some(local().to_rfc3339_opts(SecondsFormat::Secs, false)),
            Source::Time(TimeForm::Http) => {
                Some(self.input.now.format("%a, %d %b %Y %H:%M:%S GMT").to_string())
            }
            Source::Time(TimeForm::Unix) => Some(self.input.now.timestamp().to_string()),
            Source::AcceptedDate => Some(self.accepted().format("%Y-%m-%d").to_string()),
            Source::AcceptedTime => Some(self.accepted().to_rfc3339_opts(SecondsFormat::Secs, false)),
            Source::Challenge => self.input.challenge.map(str::to_owned),
            // The rail has not asked.
            Source::Computed(..) if self.input.challenge.is_none() && form.answers_challenge(slot) => None,
            Source::Secret(name) if secrets.is_shown() => Some(format!("[secret {name}]")),
            Source::Token(name) if secrets.is_shown() => Some(format!("[token {name}]")),
            Source::Computed(name, value) if secrets.is_shown() => {
                let value = value.as_ref().map(|value| format!(".{value}")).unwrap_or_default();
                let over =
                    form.over.get(name).map(|text| format!(" over {}", text.shown())).unwrap_or_default();
                Some(format!("[{name}{value}{over}]"))
            }
            Source::Secret(name) => Some(self.secret(name)?.to_owned()),
            Source::Token(name) => {
                let token =
                    secrets.token(name).ok_or_else(|| Refusal::Ours(format!("there is no token {name}")))?;
                Some(token.to_owned())
            }
            Source::Computed(name, value) => Some(self.computed(name, value.as_deref())?),
            Source::Callback => secrets.callback(payment.origin.outbox_id),
            Source::Body => self.body.map(|body| String::from_utf8_lossy(body).into_owned()),
            Source::Base => None,
        })
    }

    /// An id of the outbox carries the moment of its acceptance.
    fn accepted(&self) -> DateTime<FixedOffset> {
        let carried =
            self.input.payment.origin.outbox_id.get_timestamp().map(|timestamp| timestamp.to_unix());
        let accepted = carried
            .and_then(|(seconds, nanos)| DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanos));
        accepted.unwrap_or(self.input.now).with_timezone(&self.form.offset)
    }

    fn secret(&self, name: &str) -> Result<&str, Refusal> {
        self.input.secrets.secret(name).ok_or_else(|| Refusal::Ours(format!("there is no secret {name}")))
    }

    fn computed(&self, name: &str, value: Option<&str>) -> Result<String, Refusal> {
        let secrets = self.input.secrets;
        let ours = |problem: String| Refusal::Ours(format!("computed.{name}: {problem}"));
        let encoded = |encoding: Encoding, bytes: Vec<u8>| match encoding {
            Encoding::Base64 => STANDARD.encode(bytes),
            Encoding::Hex => hex::encode(bytes),
        };
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
                let text = cavage_text(&self.unsigned().map_err(ours)?, headers)
                    .map_err(|lacking| ours(format!("{lacking} is not in the request")))?;
                let signature = secrets.prove(key, text.as_bytes()).map_err(ours)?;
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
                let base = parameters
                    .base(&self.unsigned().map_err(ours)?)
                    .map_err(|lacking| ours(format!("{lacking} is not in the request")))?;
                let signature = secrets.prove(key, base.as_bytes()).map_err(ours)?;
                Ok(format!("{label}=:{}:", STANDARD.encode(signature)))
            }
            Some(Computed::Jws { key, b64, .. }) => {
                let header = match self.form.protected.get(name) {
                    Some(template) => template.fill(&mut |slot: &Slot| self.value(slot))?,
                    None => None,
                };
                let header = header.unwrap_or(Json::Object(Vec::new()));
                let header = serde_json::to_vec(&header).map_err(|error| ours(error.to_string()))?;
                let (input, protected) = jws_input(&header, self.written_body().map_err(ours)?, *b64);
                Ok(jws_detached(&protected, &secrets.prove(key, &input).map_err(ours)?))
            }
            Some(Computed::Envelope { key }) => {
                let body = self.written_body().map_err(ours)?;
                if self.envelope.get().is_none() {
                    let sealed = secrets.envelope(key, body).map_err(ours)?;
                    self.envelope.get_or_init(|| sealed);
                }
                let (sealed, opener) = self.envelope.get().cloned().unwrap_or_default();
                Ok(if value == Some("body") { sealed } else { opener })
            }
        }
    }

    fn written_body(&self) -> Result<&[u8], String> {
        self.body.ok_or_else(|| "the body is not written yet".to_owned())
    }

    fn unsigned(&self) -> Result<Unsigned<'_>, String> {
        self.unsigned.ok_or_else(|| "the headers are not written yet".to_owned())
    }

    /// What is signed, byte for byte.
    fn over(&self, name: &str) -> Result<Vec<u8>, Refusal> {
        let Some(text) = self.form.over.get(name) else { return Ok(Vec::new()) };
        let is_body = matches!(&text.0[..], [crate::slot::Piece::Slot(slot)] if slot.source == Source::Body);
        if is_body {
            return Ok(self.body.unwrap_or_default().to_vec());
        }
        match text.fill(&mut |slot: &Slot| self.value(slot), str::to_owned)? {
            Some(filled) => Ok(filled.into_bytes()),
            None => Err(Refusal::Ours(format!("computed.{name}: what is to be signed is not there"))),
        }
    }
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}
