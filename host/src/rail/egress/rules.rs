//! Which requests may leave. Pure functions over a rail's endpoints.

use serde::Deserialize;
use url::{Host, Url};

use crate::payment::{Instruction, KeyForm};

use super::places::{self, Message, Place};
use super::witness::{Denied, Rule};

/// What a request to an endpoint can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// It can move money: from `disburse` only, once per attempt, and checked against the instruction.
    Money,
    /// It changes nothing.
    Read,
    /// It opens a session; the host reads the reply.
    Session,
}

/// Which of its functions an adapter is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Validate,
    Disburse,
    Query,
}

/// An endpoint as the rail's file writes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointFile {
    pub name: String,
    pub method: String,
    /// `https://host/path`; a segment of the path may be `{any}` or the key: `{key:uuid}`, `{key:hex}`, `{key:hex32}`. A query is
    /// part of it as it stands.
    pub url: String,
    pub class: Class,
    #[serde(default)]
    pub key: Vec<KeyPlace>,
    pub amount: Option<Place>,
    pub currency: Option<Place>,
    pub payee: Option<PayeePlace>,
    #[serde(default)]
    pub secrets: Vec<SecretPlace>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyPlace {
    pub at: Place,
    pub form: KeyForm,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PayeePlace {
    pub at: Place,
    /// The part of the destination that stands there.
    pub part: String,
    /// What the rail wants removed from its front, such as a country code.
    #[serde(default)]
    pub without: String,
}

/// Where secrets and tokens may stand.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretPlace {
    /// Names of secrets or tokens.
    pub of: Vec<String>,
    pub at: Place,
    #[serde(default)]
    pub encoding: SecretEncoding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretEncoding {
    #[default]
    Plain,
    /// The header is `Basic USER:PASSWORD` with handles; what follows the word is sent in base64.
    Basic,
}

/// Where an endpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub scheme: String,
    pub host: String,
    pub port: u16,
    pub path: Vec<Segment>,
    pub query: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    Text(String),
    Any,
    Key(KeyForm),
}

#[derive(Debug, Clone)]
pub struct Endpoint {
    pub name: String,
    pub method: String,
    pub target: Target,
    pub class: Class,
    key: Vec<KeyPlace>,
    amount: Option<Place>,
    currency: Option<Place>,
    payee: Option<PayeePlace>,
    pub secrets: Vec<SecretPlace>,
}

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

impl Endpoint {
    pub(crate) fn read(file: &EndpointFile) -> Result<Self, String> {
        let wrong = |problem: String| format!("endpoint {}: {problem}", file.name);
        if !METHODS.contains(&file.method.as_str()) {
            return Err(wrong(format!(
                "method is {:?}, expected one of {}",
                file.method,
                METHODS.join(", ")
            )));
        }
        let checked = [
            ("key", !file.key.is_empty()),
            ("amount", file.amount.is_some()),
            ("currency", file.currency.is_some()),
            ("payee", file.payee.is_some()),
        ];
        match (file.class, checked.iter().find(|(_, given)| *given == (file.class != Class::Money))) {
            (Class::Money, Some((name, _))) => {
                return Err(wrong(format!("class is money, expected {name} to say where it stands")));
            }
            (_, Some((name, _))) => return Err(wrong(format!("{name} is compared on money endpoints only"))),
            (_, None) => {}
        }
        if file
            .secrets
            .iter()
            .any(|place| place.encoding == SecretEncoding::Basic && !matches!(place.at, Place::Header(_)))
        {
            return Err(wrong("encoding basic belongs in a header".to_owned()));
        }
        Ok(Self {
            name: file.name.clone(),
            method: file.method.clone(),
            target: Target::read(&file.url).map_err(wrong)?,
            class: file.class,
            key: file.key.clone(),
            amount: file.amount.clone(),
            currency: file.currency.clone(),
            payee: file.payee.clone(),
            secrets: file.secrets.clone(),
        })
    }

    pub(crate) fn is_session(&self) -> bool {
        self.class == Class::Session
    }

    fn fits(&self, method: &str, url: &Url, instruction: &Instruction) -> bool {
        let target = &self.target;
        self.method == method
            && url.scheme() == target.scheme
            && url.host_str() == Some(&target.host)
            && url.port_or_known_default() == Some(target.port)
            && url.query() == target.query.as_deref()
            && url.path_segments().is_some_and(|segments| {
                let found: Vec<&str> = segments.collect();
                found.len() == target.path.len()
                    && target.path.iter().zip(found).all(|(segment, text)| match segment {
                        Segment::Text(expected) => expected == text,
                        Segment::Any => !text.is_empty(),
                        Segment::Key(form) => instruction.key.form(*form) == text,
                    })
            })
    }
}

impl Target {
    fn read(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("url is {text:?}: {error}"))?;
        let expected = |what: &str| format!("url is {text:?}, expected {what}");
        if !matches!(url.scheme(), "http" | "https") {
            return Err(expected("https, or http on loopback"));
        }
        if has_extras(&url) {
            return Err(expected("no user and no fragment"));
        }
        if url.query().is_some_and(|query| query.contains(['{', '}'])) {
            return Err(expected("no pattern in the query"));
        }
        let host = url.host_str().ok_or_else(|| expected("a host"))?.to_owned();
        let path = url.path_segments().into_iter().flatten().map(segment).collect::<Result<_, _>>()?;
        Ok(Self {
            scheme: url.scheme().to_owned(),
            host,
            port: url.port_or_known_default().unwrap_or(443),
            path,
            query: url.query().map(ToOwned::to_owned),
        })
    }
}

fn segment(text: &str) -> Result<Segment, String> {
    // The parser has written braces as percent signs.
    match text.replace("%7B", "{").replace("%7D", "}").as_str() {
        "{any}" => Ok(Segment::Any),
        "{key:hex}" => Ok(Segment::Key(KeyForm::Hex)),
        "{key:hex32}" => Ok(Segment::Key(KeyForm::Hex32)),
        "{key:uuid}" => Ok(Segment::Key(KeyForm::Uuid)),
        other if other.contains(['{', '}']) => {
            Err(format!("{other} is no pattern, expected {{any}} or {{key:FORM}}"))
        }
        _ => Ok(Segment::Text(text.to_owned())),
    }
}

fn has_extras(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some() || url.fragment().is_some()
}

/// The endpoint that a request may go to, or why it may go nowhere.
pub(crate) fn admit<'r>(
    endpoints: &'r [Endpoint],
    operation: Operation,
    money_was_sent: bool,
    instruction: &Instruction,
    url: &Url,
    message: &Message<'_>,
) -> Result<&'r Endpoint, Denied> {
    if has_extras(url) {
        let why = format!("{} {}: no user and no fragment is taken", message.method, bare(url));
        return Err(Denied::new(Rule::Form, why));
    }
    let Some(endpoint) = endpoints.iter().find(|endpoint| endpoint.fits(message.method, url, instruction))
    else {
        let literal = matches!(url.host(), Some(Host::Ipv4(_) | Host::Ipv6(_)));
        let hint = if literal { ", an address instead of a name," } else { "" };
        let why = format!("{} {}{hint} is no endpoint of this rail", message.method, bare(url));
        return Err(Denied::new(Rule::Endpoint, why));
    };
    let denied = |rule: Rule, why: String| Denied::new(rule, format!("endpoint {}{why}", endpoint.name));
    if endpoint.class == Class::Money {
        if operation != Operation::Disburse {
            return Err(denied(Rule::MoneyElsewhere, format!(" moves money, which {operation:?} may not")));
        }
        if money_was_sent {
            return Err(denied(Rule::SecondPayment, ": one attempt moves money once".to_owned()));
        }
        compare(endpoint, instruction, message).map_err(|(rule, why)| denied(rule, format!(": {why}")))?;
    }
    Ok(endpoint)
}

/// Without what may hold more than an operator should read.
fn bare(url: &Url) -> String {
    format!("{}://{}", url.scheme(), &url[url::Position::BeforeHost..url::Position::AfterPath])
}

/// Whether a request that moves money says what the instruction says.
fn compare(
    endpoint: &Endpoint,
    instruction: &Instruction,
    message: &Message<'_>,
) -> Result<(), (Rule, String)> {
    let check = |rule: Rule, place: &Place, is_right: &dyn Fn(&str) -> bool| {
        let found = places::find(place, message).map_err(|problem| (rule, problem))?;
        match is_right(&found) {
            true => Ok(()),
            false => Err((rule, format!("the {} at {place} is not the instruction's", rule.as_str()))),
        }
    };
    for place in &endpoint.key {
        check(Rule::Key, &place.at, &|found| found == instruction.key.form(place.form))?;
    }
    if let Some(place) = &endpoint.amount {
        let amount = instruction.money.amount();
        check(Rule::Amount, place, &|found| crate::payment::same_amount(found, amount))?;
    }
    if let Some(place) = &endpoint.currency {
        check(Rule::Currency, place, &|found| found == instruction.money.currency())?;
    }
    if let Some(place) = &endpoint.payee {
        let payee = instruction.destination.part(&place.part).unwrap_or_default();
        let payee = payee.strip_prefix('+').unwrap_or(payee);
        let payee = payee.strip_prefix(place.without.as_str()).unwrap_or(payee);
        check(Rule::Payee, &place.at, &|found| !payee.is_empty() && found == payee)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::payment::Origin;

    const ENDPOINTS: &str = r#"
        [[e]]
        name = "token"
        method = "POST"
        url = "https://rail.example/token"
        class = "session"
        [[e]]
        name = "pay"
        method = "POST"
        url = "https://rail.example/v1/transfer"
        class = "money"
        key = [{ at = { header = "x-reference-id" }, form = "uuid" }, { at = { json = "/externalId" }, form = "uuid" }]
        amount = { json = "/amount" }
        currency = { json = "/currency" }
        payee = { at = { json = "/payee/id" }, part = "msisdn", without = "260" }
        [[e]]
        name = "status"
        method = "GET"
        url = "https://rail.example/v1/transfer/{key:uuid}"
        class = "read"
        [[e]]
        name = "enquiry"
        method = "GET"
        url = "https://rail.example/v2/transfer/{key:uuid}?type=B2C"
        class = "read"
    "#;

    fn endpoints() -> Vec<Endpoint> {
        #[derive(Deserialize)]
        struct All {
            e: Vec<EndpointFile>,
        }
        let all: All = toml::from_str(ENDPOINTS).expect("TOML");
        all.e.iter().map(|file| Endpoint::read(file).expect("sound")).collect()
    }

    fn instruction() -> Instruction {
        let origin = Origin {
            outbox_id: Uuid::nil(),
            instruction_id: "i".into(),
            participant_id: "p".into(),
            sequence_id: 1,
        };
        let payload = json!({ "amount": "10.50", "currency": "ZMW", "destination": "+260961234567" });
        Instruction::read(origin, &payload.to_string(), 1).expect("a good payment")
    }

    fn body() -> serde_json::Value {
        let key = instruction().key.form(KeyForm::Uuid);
        json!({ "amount": "10.5", "currency": "ZMW", "externalId": key, "payee": { "id": "961234567" } })
    }

    fn ask(
        operation: Operation,
        sent: bool,
        method: &str,
        url: &str,
        body: &serde_json::Value,
    ) -> Result<String, String> {
        let key = instruction().key.form(KeyForm::Uuid);
        let headers = [("X-Reference-Id".to_owned(), key)];
        let body = body.to_string();
        let message = Message::new(method, &headers, body.as_bytes());
        let url = Url::parse(url).expect("a URL");
        admit(&endpoints(), operation, sent, &instruction(), &url, &message)
            .map(|endpoint| endpoint.name.clone())
            .map_err(|denied| format!("{}: {}", denied.rule.as_str(), denied.why))
    }

    #[test]
    fn money_leaves_from_disburse_once_and_as_instructed() {
        let pay = "https://rail.example/v1/transfer";
        assert_eq!(ask(Operation::Disburse, false, "POST", pay, &body()).as_deref(), Ok("pay"));
        assert!(
            ask(Operation::Validate, false, "POST", pay, &body())
                .expect_err("not from validate")
                .contains("moves money")
        );
        assert!(
            ask(Operation::Query, false, "POST", pay, &body())
                .expect_err("not from a query")
                .contains("moves money")
        );
        assert!(
            ask(Operation::Disburse, true, "POST", pay, &body()).expect_err("not twice").contains("once")
        );
    }

    #[test]
    fn a_request_that_differs_from_the_instruction_does_not_leave() {
        let pay = "https://rail.example/v1/transfer";
        for (pointer, value, what) in [
            ("/amount", json!("10.51"), "the amount"),
            ("/amount", json!(1050), "the amount"),
            ("/currency", json!("USD"), "the currency"),
            ("/externalId", json!("another"), "the key"),
            ("/payee/id", json!("260961234567"), "the payee"),
            ("/payee/id", json!("971234567"), "the payee"),
        ] {
            let mut body = body();
            *body.pointer_mut(pointer).expect("it is there") = value;
            let refused = ask(Operation::Disburse, false, "POST", pay, &body).expect_err(pointer);
            assert!(refused.contains(what), "{refused}");
            assert!(refused.starts_with(&what.replace("the ", "")), "the rule has its name: {refused}");
        }
        let mut body = body();
        body.as_object_mut().expect("an object").remove("currency");
        assert!(
            ask(Operation::Disburse, false, "POST", pay, &body)
                .expect_err("gone")
                .contains("nothing at json /currency")
        );
    }

    #[test]
    fn only_listed_endpoints_are_reached() {
        let status = format!("https://rail.example/v1/transfer/{}", instruction().key.form(KeyForm::Uuid));
        let nothing = json!(null);
        assert_eq!(ask(Operation::Query, false, "GET", &status, &nothing).as_deref(), Ok("status"));
        let enquiry = status.replace("/v1/", "/v2/");
        assert_eq!(
            ask(Operation::Query, false, "GET", &format!("{enquiry}?type=B2C"), &nothing).as_deref(),
            Ok("enquiry")
        );
        for query in ["", "?", "?type=B2B", "?type=B2C&type=B2B"] {
            assert!(
                ask(Operation::Query, false, "GET", &format!("{enquiry}{query}"), &nothing).is_err(),
                "{query}"
            );
        }
        for url in [
            "https://rail.example/v1/transfer/another-key",
            "https://rail.example/v1/transfer/",
            "http://rail.example/v1/transfer",
            "https://rail.example:8443/token",
            "https://rail.example.evil.example/token",
            "https://evil.example/token",
            "https://1.2.3.4/token",
            "https://user:pass@rail.example/token",
            "https://rail.example/token?x=1",
            "https://rail.example/token#x",
            "https://rail.example/token/../admin",
            "https://rail.example//token",
        ] {
            assert!(ask(Operation::Disburse, false, "POST", url, &nothing).is_err(), "{url}");
        }
        assert!(
            ask(Operation::Disburse, false, "GET", "https://rail.example/token", &nothing).is_err(),
            "another method"
        );
        assert_eq!(
            ask(Operation::Disburse, false, "POST", "https://rail.example/x/../token", &nothing).as_deref(),
            Ok("token")
        );
    }

    #[test]
    fn an_endpoint_that_contradicts_itself_is_refused() {
        let refused = |change: fn(&mut EndpointFile), n: usize| {
            #[derive(Deserialize)]
            struct All {
                e: Vec<EndpointFile>,
            }
            let mut all: All = toml::from_str(ENDPOINTS).expect("TOML");
            change(&mut all.e[n]);
            Endpoint::read(&all.e[n]).expect_err("it contradicts itself")
        };
        assert!(refused(|e| e.amount = None, 1).contains("expected amount"));
        assert!(refused(|e| e.class = Class::Read, 1).contains("compared on money endpoints only"));
        assert!(refused(|e| e.method = "TRACE".into(), 0).contains("method"));
        assert!(refused(|e| e.url = "https://rail.example/{what}".into(), 0).contains("is no pattern"));
        assert!(refused(|e| e.url = "https://rail.example/?id={key:hex}".into(), 0).contains("no pattern"));
        assert!(refused(|e| e.url = "ftp://rail.example/".into(), 0).contains("expected https"));
    }
}
