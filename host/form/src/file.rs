//! The form as a rail's file writes it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::codes::CodeTable;
use crate::field::FieldFile;
use crate::reply::ReplyFile;

/// All sections of a rail's file that belong to the form.
#[derive(Debug, Clone, Default)]
pub struct FormFile {
    /// No network: the adapter's values are the reply.
    pub is_mock: bool,
    pub base: Option<String>,
    pub utc_offset: Option<String>,
    pub currencies: Vec<String>,
    pub amount: AmountFile,
    pub destination: DestinationFile,
    pub narrative: Option<FieldFile>,
    pub payload: BTreeMap<String, PayloadFile>,
    pub settings: BTreeMap<String, String>,
    pub variables: BTreeMap<String, VariableFile>,
    pub tables: BTreeMap<String, BTreeMap<String, String>>,
    pub computed: BTreeMap<String, Computed>,
    pub steps: BTreeMap<String, StepFile>,
    pub disburse: OperationFile,
    pub query_status: OperationFile,
    pub codes: CodeTable,
    /// Names that the file gives to values which do not stand in it.
    pub secrets: Vec<String>,
    pub keys: Vec<String>,
    /// And the steps that bring them.
    pub tokens: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AmountFile {
    /// The least and the most that may be paid, by currency.
    pub min: BTreeMap<String, String>,
    pub max: BTreeMap<String, String>,
    /// How many of the rail's units one unit of the currency is.
    pub minor: BTreeMap<String, u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DestinationFile {
    /// The part that a destination is which consists of a single text.
    pub plain: Option<String>,
    pub parts: BTreeMap<String, FieldFile>,
    /// Parts that payments may have and this rail has no use for.
    pub unused: Vec<String>,
    /// Exactly one of these is given.
    pub one_of: Vec<String>,
}

/// A value of the payload besides money, destination and narrative.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PayloadFile {
    /// A JSON pointer into the payload.
    pub at: String,
    pub field: FieldFile,
}

/// What the adapter fills in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariableFile {
    /// For the person who approves the file.
    pub purpose: String,
    pub field: FieldFile,
}

/// A value that the host makes of secrets and of what is sent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Computed {
    /// `USER:PASSWORD` in base64, both by the names of secrets.
    Basic { user: String, password: String },
    /// A secret under a public key, in base64.
    Encrypt { key: String, secret: String },
    /// An HMAC over a template, or over `{body}`.
    Hmac {
        key: String,
        over: String,
        #[serde(default)]
        encoding: Encoding,
    },
    /// A signature likewise.
    Sign {
        key: String,
        over: String,
        #[serde(default)]
        encoding: Encoding,
    },
    /// The body under a fresh AES key (`.body`), and that key under a public one (`.key`), as Airtel wants its messages signed.
    Envelope { key: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    #[default]
    Base64,
    Hex,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OperationFile {
    /// Of `disburse`: the requests in order, the one that pays last. Of `query-status`: ways to ask, of which the first counts that
    /// can be filled in.
    pub steps: Vec<String>,
    /// Of `disburse`: other requests for payments of a kind; the first that fits counts, before `steps`.
    pub ways: Vec<WayFile>,
}

/// One of several ways to pay.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WayFile {
    pub when: WhenFile,
    pub steps: Vec<String>,
}

/// Which payments go a way: all that is said here holds for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WhenFile {
    /// `destination.PART` or `payload.NAME`: the payment has it.
    pub given: Option<String>,
    /// It is in one of these.
    pub currencies: Vec<String>,
}

/// What a request can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepClass {
    /// It moves no money and may be repeated: a quote, a recipient, a lookup.
    Prepare,
    /// It moves money: the last of `disburse`, once per attempt.
    Money,
    /// It changes nothing.
    Read,
    /// It brings a token; the host alone reads the reply.
    Session,
}

/// One request and how its reply is read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepFile {
    pub class: StepClass,
    /// Of a step that prepares: made anew for every attempt, also where what it brings is known.
    #[serde(default)]
    pub again: bool,
    /// `POST {base}/path/{key:uuid}?name={…}`; a mock has none.
    pub request: Option<String>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// One of these three, or no body.
    pub json: Option<String>,
    pub xml: Option<String>,
    pub form: Option<BTreeMap<String, String>>,
    /// By HTTP status: `200`, `4xx` or `any`; the most exact one counts.
    #[serde(default)]
    pub reply: BTreeMap<String, ReplyFile>,
}
