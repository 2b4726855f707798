//! One request of the form: where it goes, and every place in it that takes a value.

use std::collections::BTreeSet;

use payment::{KeyForm, plain};
use url::Url;

use crate::file::{FormFile, StepClass, StepFile};
use crate::slot::{Piece, Slot, SlotSource, Text};
use crate::template::{Body, JsonTemplate, XmlElement};

/// The request of a step, checked: address, headers and body, with slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestTemplate {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// Whom it goes to, by `base` of the rail file.
    pub target: RequestTarget,
    /// Between slashes.
    pub(crate) path: Vec<Text>,
    pub(crate) query: Vec<(String, Text)>,
    pub(crate) headers: Vec<(String, Text)>,
    pub(crate) body: Body,
    /// Found once: every request asks for them.
    found: TemplateSlots,
}

/// What stands in a template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct TemplateSlots {
    slots: Vec<Slot>,
    money_slots: Vec<Slot>,
    hides_address: bool,
    hides_body: bool,
}

/// Whom a request goes to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestTarget {
    /// `https`, or `http` for a rail on loopback; the form itself takes both.
    pub scheme: String,
    /// A name or an address; an address of IPv6 stands in brackets.
    pub host: String,
    /// Where `base` names none: 443 for `https`, 80 for `http`.
    pub port: u16,
}

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// Headers that are the host's own.
const OWN_HEADERS: [&str; 14] = [
    "host",
    "content-encoding",
    "expect",
    "x-http-method",
    "x-http-method-override",
    "content-length",
    "connection",
    "transfer-encoding",
    "upgrade",
    "te",
    "trailer",
    "proxy-authorization",
    "accept-encoding",
    "user-agent",
];

impl RequestTemplate {
    pub(crate) fn load(key: &str, file: &FormFile, line: &str, step: &StepFile) -> Result<Self, String> {
        let wrong = |problem: String| format!("{key}.request is {line:?}: {problem}");
        let (method, rest) = split_line(line).map_err(wrong)?;
        let base = file.base.as_deref().ok_or("base is missing, expected where the rail is: https://…")?;
        let (target, prefix) = RequestTarget::read(base)?;
        if !rest.is_empty() && !rest.starts_with(['/', '?']) {
            return Err(wrong("expected a slash after {base}".to_owned()));
        }
        let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
        let path = path_texts(&format!("{prefix}{path}")).map_err(wrong)?;
        let query = query.map_or(Ok(Vec::new()), query_texts).map_err(wrong)?;
        let mut headers = header_texts(key, step)?;
        let body = body(key, step)?;
        check_no_name_twice(&query, &body).map_err(wrong)?;
        if body != Body::None && method == "GET" {
            return Err(wrong("a GET must not have a body".to_owned()));
        }
        if let Some(kind) = body.content_type().filter(|_| !step.headers.contains_key("content-type")) {
            headers.push(("content-type".to_owned(), Text(vec![Piece::Const(kind.to_owned())])));
        }
        let found = TemplateSlots::default();
        let mut template = Self { method: method.to_owned(), target, path, query, headers, body, found };
        template.found = template.find();
        Ok(template)
    }

    fn find(&self) -> TemplateSlots {
        let slots = |texts: &[(String, &Text)]| {
            texts.iter().flat_map(|(_, text)| text.slots()).cloned().collect::<Vec<_>>()
        };
        let hides = |texts: &[(String, &Text)]| texts.iter().any(|(_, text)| text.hides());
        let (address, body) = (self.address_texts(), self.body.texts());
        TemplateSlots {
            slots: slots(&self.texts()),
            money_slots: slots(if self.body == Body::None { &address } else { &body }),
            hides_address: hides(&address),
            hides_body: hides(&body),
        }
    }

    /// Every slot of it.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.found.slots
    }

    /// Those that say what is paid to whom: of the body, or of the address where there is none. A header is read by nobody who
    /// has both.
    pub(crate) fn money_slots(&self) -> &[Slot] {
        &self.found.money_slots
    }

    /// Something in its address must not be seen by anybody but the rail.
    pub(crate) fn hides_address(&self) -> bool {
        self.found.hides_address
    }

    /// The same of its body.
    pub(crate) fn hides_body(&self) -> bool {
        self.found.hides_body
    }

    pub(crate) fn address_texts(&self) -> Vec<(String, &Text)> {
        let path = self.path.iter().map(|text| ("path".to_owned(), text));
        let query = self.query.iter().map(|(name, text)| (format!("query.{name}"), text));
        path.chain(query).collect()
    }

    /// Every text with slots, and where it stands.
    pub(crate) fn texts(&self) -> Vec<(String, &Text)> {
        let mut texts = self.address_texts();
        texts.extend(self.headers.iter().map(|(name, text)| (format!("headers.{name}"), text)));
        texts.extend(self.body.texts());
        texts
    }

    /// The reply is about the payment unless it says something else: the request names it by its key, or by what was captured from a
    /// reply about it, and a question names it by nothing else. Of a step that prepares the payee is enough: it asks about him.
    pub(crate) fn asks_by_key(&self, class: StepClass) -> bool {
        let texts = self.texts();
        let slots = || texts.iter().flat_map(|(at, text)| text.slots().map(move |slot| (at, slot)));
        let own = |(at, slot): (&String, &Slot)| {
            let counts = class == StepClass::Money || !at.starts_with("headers");
            let names = match &slot.source {
                SlotSource::Key(_) | SlotSource::Captured(_) => true,
                SlotSource::Destination { .. } => class == StepClass::Prepare,
                _ => false,
            };
            counts && names && !slot.optional
        };
        let foreign = |(_, slot): (&String, &Slot)| {
            class == StepClass::Read
                && matches!(
                    slot.source,
                    SlotSource::Destination { .. }
                        | SlotSource::Amount { .. }
                        | SlotSource::Payload(_)
                        | SlotSource::Narrative
                        | SlotSource::Adapter(_)
                )
        };
        slots().any(own) && !slots().any(foreign)
    }

    /// The forms in which the key stands in it.
    pub fn key_forms(&self) -> Vec<KeyForm> {
        let form = |slot: &Slot| match slot.source {
            SlotSource::Key(form) => Some(form),
            _ => None,
        };
        self.slots().iter().filter_map(form).collect()
    }
}

/// The method, and what follows the base.
fn split_line(line: &str) -> Result<(&str, &str), String> {
    let (method, url) = line.split_once(' ').ok_or("expected METHOD {base}/path")?;
    if !METHODS.contains(&method) {
        return Err(format!("expected one of {}", METHODS.join(", ")));
    }
    let rest = url.strip_prefix("{base}").ok_or("expected {base} after the method")?;
    Ok((method, rest))
}

fn path_texts(path: &str) -> Result<Vec<Text>, String> {
    let segments = path.strip_prefix('/').unwrap_or(path).split('/');
    segments.map(|segment| address_text(segment, "/")).collect()
}

fn query_texts(query: &str) -> Result<Vec<(String, Text)>, String> {
    let mut pairs: Vec<(String, Text)> = Vec::new();
    for pair in query.split('&') {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| format!("{pair:?} has no =, expected name=value"))?;
        if !is_address(name) || pairs.iter().any(|(known, _)| known == name) {
            return Err(format!("parameter {name:?} is not a valid name, or appears twice"));
        }
        pairs.push((name.to_owned(), address_text(value, "?")?));
    }
    Ok(pairs)
}

fn header_texts(key: &str, step: &StepFile) -> Result<Vec<(String, Text)>, String> {
    let mut headers = Vec::new();
    for (name, value) in &step.headers {
        let token = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || !name.bytes().all(token) {
            return Err(format!("{key}.headers has {name:?}, expected a name in lower case"));
        }
        if OWN_HEADERS.contains(&name.as_str()) {
            return Err(format!("{key}.headers has {name}, which only the host sets"));
        }
        let text = Text::parse(value).map_err(|problem| format!("{key}.headers.{name}: {problem}"))?;
        if text.constant().is_some_and(|constant| !is_header(constant)) || text.is_number() {
            return Err(format!("{key}.headers.{name}: expected visible ASCII characters"));
        }
        headers.push((name.clone(), text));
    }
    Ok(headers)
}

/// Rails that read query and form together must not find two values for one name.
fn check_no_name_twice(query: &[(String, Text)], body: &Body) -> Result<(), String> {
    let form = match body {
        Body::Form(pairs) => pairs.iter().map(|(name, _)| name).collect(),
        _ => Vec::new(),
    };
    let mut names: BTreeSet<String> = BTreeSet::new();
    let twice =
        query.iter().map(|(name, _)| name).chain(form).find(|name| !names.insert(name.to_lowercase()));
    match twice {
        Some(name) => Err(format!("{name:?} is there twice, in query or form, whatever its case")),
        None => Ok(()),
    }
}

fn body(key: &str, step: &StepFile) -> Result<Body, String> {
    let mut bodies = Vec::new();
    if let Some(json) = &step.json {
        bodies.push(Body::Json(JsonTemplate::parse(json).map_err(|why| format!("{key}.json: {why}"))?));
    }
    if let Some(xml) = &step.xml {
        bodies.push(Body::Xml(XmlElement::parse(xml).map_err(|why| format!("{key}.xml: {why}"))?));
    }
    if let Some(form) = &step.form {
        let mut pairs = Vec::new();
        for (name, value) in form {
            let text = Text::parse(value).map_err(|why| format!("{key}.form.{name}: {why}"))?;
            pairs.push((name.clone(), text));
        }
        bodies.push(Body::Form(pairs));
    }
    if bodies.iter().flat_map(Body::texts).any(|(at, text)| text.is_number() && !at.starts_with("json")) {
        return Err(format!("{key} writes a number outside JSON; expected a text: {{amount:decimal}}"));
    }
    match (bodies.pop(), bodies.is_empty()) {
        (None, _) => Ok(Body::None),
        (Some(body), true) => Ok(body),
        (Some(_), false) => Err(format!("{key} has more than one of json, xml and form, expected one")),
    }
}

fn address_text(text: &str, what: &str) -> Result<Text, String> {
    let parsed = Text::parse(text)?;
    let constants = parsed.0.iter().filter_map(|piece| match piece {
        Piece::Const(constant) => Some(constant),
        Piece::Slot(_) => None,
    });
    if parsed.is_number() {
        return Err("an address contains a number slot; expected a text".to_owned());
    }
    for constant in constants {
        if !is_address(constant) || what == "/" && matches!(constant.as_str(), "." | "..") {
            return Err(format!("{constant:?} must be percent-encoded in an address"));
        }
    }
    Ok(parsed)
}

/// Unreserved characters, and what paths and parameters hold besides without meaning anything by it.
fn is_address(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:@!$'()*,".contains(&byte))
}

pub(crate) fn is_header(text: &str) -> bool {
    text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) && text.trim() == text
}

impl RequestTarget {
    /// The host of an address, and the path that all requests begin with.
    pub(crate) fn read(base: &str) -> Result<(Self, String), String> {
        let expected = |what: &str| format!("base is {:?}, expected {what}", plain(base));
        let url = Url::parse(base).map_err(|error| expected(&format!("a URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(expected("https, or http on loopback"));
        }
        let extras = !url.username().is_empty()
            || url.password().is_some()
            || url.fragment().is_some()
            || url.query().is_some();
        if extras || base.ends_with('/') {
            return Err(expected("scheme, host and path, without a slash at the end"));
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(expected("a host"));
        };
        let target = Self { scheme: url.scheme().to_owned(), host: host.to_owned(), port };
        Ok((target, url.path().trim_end_matches('/').to_owned()))
    }

    /// As the header `host` has it.
    pub fn authority(&self) -> String {
        let usual = matches!((self.scheme.as_str(), self.port), ("https", 443) | ("http", 80));
        if usual { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }
}
