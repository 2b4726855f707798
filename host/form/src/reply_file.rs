//! How replies are read, as the rail's file says it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::field::FieldFile;

/// How a reply is read, as the rail's file writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReplyFile {
    pub body: Format,
    /// Where the key stands in the reply: each that is there has to be ours.
    pub bound: Vec<BoundFile>,
    /// The entry of a list that is about this payment; all paths begin there.
    pub pick: Option<PickFile>,
    pub facts: BTreeMap<String, FactFile>,
    /// The rail's own name for the payment.
    pub reference: Option<FactFile>,
    /// What is written into later requests of this payment.
    pub capture: BTreeMap<String, CaptureFile>,
    /// What the rail repeats of the payment. Before the payment all of it has to be there and as instructed.
    pub echo: Vec<EchoFile>,
    /// Of XML: elements that stand there, once at most, and nowhere else.
    pub only_at: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    #[default]
    Json,
    Xml,
    /// Plain text.
    Text,
    /// Nothing, or nothing that counts.
    None,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundFile {
    pub at: String,
    /// In which form the key stands there.
    pub form: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PickFile {
    pub from: String,
    /// From the entry on.
    pub by: String,
    pub form: String,
}

/// Where a fact stands: one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FactFile {
    pub one: Option<String>,
    /// The first of these places that has one.
    pub first_of: Vec<String>,
    /// All values in all of these places.
    pub all_of: Vec<String>,
    /// How many entries the list has.
    pub count: Option<String>,
    /// The whole of a plain text.
    pub whole: bool,
    /// `blank`, where the body is.
    pub blank: bool,
    /// A header of the reply.
    pub header: Option<String>,
    /// Only where this other fact is not there.
    pub unless: Option<String>,
}

/// A value of the rail's that later requests carry: where it stands, and which texts it may be.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureFile {
    pub one: String,
    pub field: FieldFile,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoFile {
    /// `amount`, `currency` or `destination.PART`.
    pub of: String,
    pub one: String,
    #[serde(default, rename = "as")]
    pub compared: Compared,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compared {
    #[default]
    Exact,
    /// By value: `5` is `5.00`.
    Decimal,
    /// In the rail's unit.
    Minor,
    /// Of phone numbers: as the slots of these names write them.
    National,
    Local,
    Plus,
    /// `*` stands for a character that is not shown.
    Masked,
    /// One of the two is the end of the other.
    Suffix,
}
