//! The form as a rail file writes it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::callback_file::CallbackFile;
use crate::codes::CodeTable;
use crate::encoding::Encoding;
use crate::field::FieldFile;
use crate::float::FloatFile;
use crate::hours::HoursFile;
use crate::reply_file::ReplyFile;

/// All sections of a rail file that belong to the form.
#[derive(Debug, Clone, Default)]
pub struct FormFile {
    /// No network: the adapter's values are the reply.
    pub is_mock: bool,
    /// Scheme, host and path that all requests begin with, without a slash at the end. Only a mock may leave it out.
    pub base: Option<String>,
    /// The rail's own time, such as `+02:00`; UTC where it is left out. Days, times and hours follow it.
    pub utc_offset: Option<String>,
    /// Codes of ISO 4217 that the rail pays in. Only a mock may have none, and then takes all.
    pub currencies: Vec<String>,
    /// Limits of amounts, and the units that the rail counts in.
    pub amount: AmountFile,
    /// The parts by which this rail knows a payee.
    pub destination: DestinationFile,
    /// Which notes a payment may carry. None: a note is neither checked nor sent.
    pub narrative: Option<FieldFile>,
    /// Other values of the payload, by the names that `{payload.NAME}` uses.
    pub payload: BTreeMap<String, PayloadFile>,
    /// Constants of the file, by the names that `{setting.NAME}` uses.
    pub settings: BTreeMap<String, String>,
    /// What the adapter fills in, by the names that `{adapter.NAME}` uses.
    pub variables: BTreeMap<String, VariableFile>,
    /// Tables by the names that `{…|TABLE}` uses. No two entries of one have the same value.
    pub tables: BTreeMap<String, BTreeMap<String, String>>,
    /// What the host computes, by the names that `{computed.NAME}` uses.
    pub computed: BTreeMap<String, Computed>,
    /// All requests, by name. Each stands in an operation, or brings a token, a key or a balance.
    pub steps: BTreeMap<String, StepFile>,
    /// Which requests pay.
    pub disburse: OperationFile,
    /// Which requests ask about a payment. Without steps the rail cannot be asked.
    pub query_status: OperationFile,
    /// What the rail's codes mean.
    pub codes: CodeTable,
    /// When it pays; at any time where there are none.
    pub hours: Option<HoursFile>,
    /// What is left to pay from, by currency.
    pub float: BTreeMap<String, FloatFile>,
    /// What the rail tells unasked and signs.
    pub callback: Option<CallbackFile>,
    /// Names that the file gives to values which do not stand in it.
    pub secrets: Vec<String>,
    /// Names of the keys that encrypt, sign, or verify a callback.
    pub keys: Vec<String>,
    /// And the steps that bring them: tokens, and keys that the rail publishes.
    pub tokens: BTreeMap<String, String>,
    /// The step that brings a key which the rail publishes, by the name of the key.
    pub fetched: BTreeMap<String, String>,
}

/// `[amount]` of a rail file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AmountFile {
    /// The least and the most that may be paid, by currency.
    pub min: BTreeMap<String, String>,
    /// The most that may be paid, by currency. No limit where it is left out.
    pub max: BTreeMap<String, String>,
    /// How many of the rail's units one unit of the currency is.
    pub minor: BTreeMap<String, u32>,
}

/// `[destination]` of a rail file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DestinationFile {
    /// The part that a destination given as one text stands for.
    pub plain: Option<String>,
    /// Which texts each part may be, by the name of the part.
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
    /// Which texts it may be.
    pub field: FieldFile,
}

/// What the adapter fills in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariableFile {
    /// For the person who approves the file.
    pub purpose: String,
    /// Which texts the adapter may give: of kind `text` only.
    pub field: FieldFile,
}

/// A value that the host makes of secrets and of what is sent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Computed {
    /// `USER:PASSWORD` in base64, both by the names of secrets.
    Basic {
        /// Name of the secret before the colon.
        user: String,
        /// Name of the secret after it.
        password: String,
    },
    /// A secret under a public key, in base64.
    Encrypt {
        /// Name of the public key, one of `[keys]`.
        key: String,
        /// Name of the secret that is encrypted, one of `[secrets]`.
        secret: String,
    },
    /// An HMAC over a template, or over `{body}`.
    Hmac {
        /// Name of the key, one of `[keys]`.
        key: String,
        /// What goes into it: a text with slots.
        over: String,
        /// How the result is written; base64 where it is left out.
        #[serde(default)]
        encoding: Encoding,
    },
    /// A signature likewise.
    Sign {
        /// Name of the private key, one of `[keys]`.
        key: String,
        /// What is signed: a text with slots.
        over: String,
        /// How the signature is written; base64 where it is left out.
        #[serde(default)]
        encoding: Encoding,
    },
    /// The body under a fresh AES key (`.body`), and that key under a public one (`.key`), as Airtel wants its messages signed.
    Envelope {
        /// Name of the public key that the AES key is encrypted with, one of `[keys]`.
        key: String,
    },
    /// SHA-256 of the body, for a header.
    Digest {
        /// How it is written: each header wants it differently.
        style: DigestStyle,
    },
    /// The value of the header `signature` by draft-cavage-http-signatures-12.
    HttpSignature {
        /// Name of the key that signs or makes an HMAC, one of `[keys]`.
        key: String,
        /// What the rail calls this key: `keyId` of the header.
        key_id: String,
        /// What is signed, in this order: `(request-target)`, `host`, and headers of the request.
        headers: Vec<String>,
        /// As the rail wants it named.
        #[serde(default = "Computed::hs2019")]
        algorithm: String,
    },
    /// Two values by RFC 9421: `.input` for the header `signature-input`, `.signature` for `signature`.
    MessageSignature {
        /// Name of the key that signs or makes an HMAC, one of `[keys]`.
        key: String,
        /// What the rail calls this key: the parameter `keyid`.
        key_id: String,
        /// What is signed, in this order: `@method`, `@target-uri`, `@authority`, `@path`, `@query`, and headers of the request.
        components: Vec<String>,
        /// Name of the signature in both headers; `sig1` where it is left out.
        #[serde(default = "Computed::sig1")]
        label: String,
        /// Seconds until it ends, where the rail wants to be told.
        expires: Option<u32>,
        /// The parameter `tag`, where the rail wants one.
        tag: Option<String>,
        /// Named only where it is given.
        alg: Option<String>,
    },
    /// A JWS over the body, detached from it: protected header, nothing, signature.
    Jws {
        /// Name of the key that signs or makes an HMAC, one of `[keys]`.
        key: String,
        /// The protected header, a JSON object that may have slots.
        header: String,
        /// False: the body is signed as it is (RFC 7797), and the header says so.
        #[serde(default = "Computed::yes")]
        b64: bool,
    },
}

impl Computed {
    fn hs2019() -> String {
        "hs2019".to_owned()
    }

    fn sig1() -> String {
        "sig1".to_owned()
    }

    fn yes() -> bool {
        true
    }

    /// The key that it is made with, if any.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Basic { .. } | Self::Digest { .. } => None,
            Self::Encrypt { key, .. }
            | Self::Hmac { key, .. }
            | Self::Sign { key, .. }
            | Self::Envelope { key }
            | Self::HttpSignature { key, .. }
            | Self::MessageSignature { key, .. }
            | Self::Jws { key, .. } => Some(key),
        }
    }

    /// The names of its values, where it has more than one.
    pub(crate) fn values(&self) -> &'static [&'static str] {
        match self {
            Self::Envelope { .. } => &["body", "key"],
            Self::MessageSignature { .. } => &["input", "signature"],
            _ => &[],
        }
    }

    /// It proves a secret and does not tell it.
    pub(crate) fn is_proof(&self) -> bool {
        !matches!(self, Self::Basic { .. } | Self::Encrypt { .. } | Self::Envelope { .. })
    }
}

/// How a digest of the body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DigestStyle {
    /// `sha-256=:…:`, of RFC 9530.
    ContentDigest,
    /// `SHA-256=…`, of RFC 3230, which draft-cavage signs.
    Digest,
    /// Hexadecimal digits alone.
    Hex,
}

/// `[disburse]` or `[query-status]` of a rail file.
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
    /// Which payments go this way. The first way that fits a payment counts.
    pub when: WhenFile,
    /// Names of its requests in order, the one that pays last.
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
    /// It brings a token or a key; the host alone reads the reply.
    Session,
    /// It says what is left to pay from; the host alone reads the reply.
    Balance,
}

impl StepClass {
    /// It is made for a payment, and its reply is about one.
    pub fn is_of_payment(self) -> bool {
        !matches!(self, Self::Session | Self::Balance)
    }
}

/// One request and how its reply is read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepFile {
    /// What the request can do. It decides in which operation the step may stand.
    pub class: StepClass,
    /// Of a step that prepares: made anew for every attempt, also where what it brings is known.
    #[serde(default)]
    pub again: bool,
    /// A refusal that asks for a signature over something: the request is made once more, with the answer.
    pub challenge: Option<ChallengeFile>,
    /// `POST {base}/path/{key:uuid}?name={…}`; a mock has none.
    pub request: Option<String>,
    /// By names in lower case. Those of the connection, such as `host`, only the host sets.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// One of these three, or no body.
    pub json: Option<String>,
    /// One XML element; its texts and attributes may have slots.
    pub xml: Option<String>,
    /// Names and values of an `application/x-www-form-urlencoded` body; values may have slots.
    pub form: Option<BTreeMap<String, String>>,
    /// By HTTP status: `200`, `4xx` or `any`; the most exact one counts.
    #[serde(default)]
    pub reply: BTreeMap<String, ReplyFile>,
}

/// Where a rail asks for the answer to a challenge before it looks at a request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChallengeFile {
    /// The HTTP status of the refusal.
    pub status: u16,
    /// The header of the reply that holds the challenge.
    pub header: String,
}
