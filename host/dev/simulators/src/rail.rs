//! What a rail has to say for itself.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};

use crate::order::ReceivedPayment;
use crate::script::{Plan, Says};
use crate::tokens::IssuedTokens;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    Mtn,
    Airtel,
    Bank,
}

impl Name {
    pub const ALL: [Self; 3] = [Self::Mtn, Self::Airtel, Self::Bank];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mtn => "mtn",
            Self::Airtel => "airtel",
            Self::Bank => "bank",
        }
    }

    /// Where the rail files in `config/rails` expect it.
    pub fn port(self) -> u16 {
        match self {
            Self::Mtn => 7101,
            Self::Airtel => 7102,
            Self::Bank => 7103,
        }
    }

    /// As the rails themselves do it.
    pub(crate) fn token_seconds(self) -> u64 {
        match self {
            Self::Mtn | Self::Bank => 3600,
            Self::Airtel => 180,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|name| name.as_str() == text);
        found.ok_or_else(|| format!("{text:?} is not a simulated rail; expected mtn, airtel or bank"))
    }
}

/// A request, whole.
#[derive(Debug)]
pub struct RailRequest {
    pub method: Method,
    pub path: String,
    pub query: Option<String>,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl RailRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }
}

/// What a request is about.
#[derive(Debug)]
pub enum Ask {
    Session,
    Pay(Box<ReceivedPayment>),
    /// By the rail's form of the key.
    Status(String),
    /// What is left to pay from, in a currency.
    Balance(String),
    /// A payee, before he is paid.
    Payee(String),
    /// Its public keys.
    Keys,
}

/// A reply as the rail means it.
#[derive(Debug, Clone)]
pub struct SimulatedReply {
    pub status: StatusCode,
    pub content_type: &'static str,
    pub retry_after: Option<u32>,
    pub body: String,
}

impl SimulatedReply {
    pub fn new(status: u16, content_type: &'static str, body: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, content_type, retry_after: None, body: body.into() }
    }

    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    pub fn empty(status: u16) -> Self {
        Self::new(status, "", "")
    }

    /// A page of whatever stands before the rail.
    pub(crate) fn html(status: u16) -> Self {
        let page = format!("<html><head><title>{status}</title></head><body><h1>{status}</h1></body></html>");
        Self::new(status, "text/html", page)
    }
}

pub trait RailModel: fmt::Debug + Send + Sync {
    /// What a request is, or the reply to one that is not as it should be: first its shape, then who sends it.
    fn read(&self, asked: &RailRequest, tokens: &IssuedTokens) -> Result<Ask, SimulatedReply>;

    /// The reply that opens a session.
    fn session(&self, token: &str, lifetime: Duration) -> SimulatedReply;

    /// The reply to a new payment, in the state that it is in.
    fn accepted(&self, order: &ReceivedPayment, says: &Says) -> SimulatedReply;

    /// The reply to a key that was seen before.
    fn duplicate(&self, order: &ReceivedPayment) -> SimulatedReply;

    /// The reply to a question about a payment that is there.
    fn status(&self, order: &ReceivedPayment, says: &Says) -> SimulatedReply;

    fn not_found(&self) -> SimulatedReply;

    /// Too many requests.
    fn busy(&self) -> SimulatedReply;

    /// A refusal at the door, with the rail's own code.
    fn refused(&self, status: u16, code: &str) -> SimulatedReply;

    /// What the rail's own sandbox does with a payment, where no rule fits.
    #[doc(hidden)]
    fn plan(&self, _: &ReceivedPayment) -> Option<Plan> {
        None
    }

    /// Forms in which it can say no, besides the usual one.
    fn variants(&self) -> &'static [&'static str] {
        &[]
    }

    /// The reply to a question about what is left.
    fn balance(&self, _currency: &str, _left: &str) -> SimulatedReply {
        SimulatedReply::empty(404)
    }

    /// The reply to a question about a payee.
    fn payee(&self, _payee: &str) -> SimulatedReply {
        SimulatedReply::empty(404)
    }

    /// The reply to a question for its public keys.
    fn keys(&self) -> SimulatedReply {
        SimulatedReply::empty(404)
    }

    /// What it tells an address of ours, if it does so at all.
    fn callback(&self, _: &ReceivedPayment, _: &Says) -> Option<String> {
        None
    }
}
