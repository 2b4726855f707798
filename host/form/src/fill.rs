//! A payment in, a request or a named refusal out. Pure: the same form, payment, values and secrets give the same bytes.

use std::borrow::Cow;
use std::cell::OnceCell;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::fill_error::FillError;
use crate::filling::Filling;
use crate::form::Form;
use crate::input::Input;
use crate::json::Json;
use crate::profile::Unsigned;
use crate::request::{RequestTarget, RequestTemplate, is_header};
use crate::shown::Shown;
use crate::slot::{Slot, SlotSource, Text};
use crate::step::Step;
use crate::template::Body;

/// A request, ready to leave.
#[derive(Clone, PartialEq, Eq)]
pub struct FilledRequest {
    /// Name of the step that it was written for.
    pub step: String,
    /// HTTP method in capital letters.
    pub method: String,
    /// Whom it goes to. The path is not part of it.
    pub target: RequestTarget,
    /// With its query.
    pub path: String,
    /// Names in lower case, signatures last. Those of the connection, such as `host`, are not among them.
    pub headers: Vec<(String, String)>,
    /// Empty where the request has none.
    pub body: Vec<u8>,
}

/// It holds secrets: nobody gets to see more than where it goes.
impl std::fmt::Debug for FilledRequest {
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
    pub fn fill(&self, step: &Step, input: &Input<'_>) -> Result<FilledRequest, FillError> {
        let template = step
            .request
            .as_ref()
            .ok_or_else(|| FillError::Ours(format!("{} has no request: a mock has no network", step.name)))?;
        if template.has_variables() {
            self.check_variables(input.values)?;
        }
        let filling = Filling { form: self, input, body: None, unsigned: None, envelope: OnceCell::new() };
        let body = filling.body(&template.body)?;
        let filling = Filling { body: Some(&body), ..filling };
        let path = filling.address(template)?;
        let is_signature = |text: &Text| {
            text.slots()
                .any(|slot| matches!(&slot.source, SlotSource::Computed(name, _) if self.signs_headers(name)))
        };
        let mut headers = filling.headers(template, |text| !is_signature(text))?;
        let unsigned =
            Unsigned { method: &template.method, target: &template.target, path: &path, headers: &headers };
        let signatures = Filling { unsigned: Some(unsigned), ..filling }.headers(template, is_signature)?;
        headers.extend(signatures);
        Ok(FilledRequest {
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
    pub fn shown(
        &self,
        step: &Step,
        input: &Input<'_>,
        request: &FilledRequest,
    ) -> Result<Vec<u8>, FillError> {
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
impl Filling<'_> {
    fn body(&self, body: &Body) -> Result<Vec<u8>, FillError> {
        let value = &mut |slot: &Slot| self.value(slot);
        match body {
            Body::None => Ok(Vec::new()),
            Body::Json(template) => {
                let json = template.fill(value)?.unwrap_or(Json::Object(Vec::new()));
                serde_json::to_vec(&json).map_err(|error| FillError::Ours(error.to_string()))
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

    fn address(&self, template: &RequestTemplate) -> Result<String, FillError> {
        let value = &mut |slot: &Slot| self.value(slot);
        let mut path = String::new();
        for segment in &template.path {
            let filled = segment.fill(value, escaped)?.unwrap_or_default();
            // Such a segment leads elsewhere.
            if segment.constant().is_none() && matches!(filled.as_str(), "" | "." | "..") {
                return Err(self.unfit(segment, "does not give a valid path"));
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
    ) -> Result<Vec<(String, String)>, FillError> {
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
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}
