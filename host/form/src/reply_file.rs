//! How replies are read, as the rail file says it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::field::FieldFile;

/// How a reply is read, as the rail file writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReplyFile {
    /// Format of the body; JSON where it is left out.
    pub body: Format,
    /// Where the key stands in the reply: each that is there has to be ours.
    pub bound: Vec<BoundFile>,
    /// The entry of a list that is about this payment; all paths begin there.
    pub pick: Option<PickFile>,
    /// What is read for the table of codes: where each fact stands, by its name.
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

/// In which format the body of a reply is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// JSON. An object that names a member twice is not read.
    #[default]
    Json,
    /// XML. Places are paths of element names in the namespace of the root.
    Xml,
    /// Plain text.
    Text,
    /// Nothing, or nothing that counts.
    None,
}

/// A place of the reply that names the payment by its key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundFile {
    /// A JSON pointer, or a path of XML elements.
    pub at: String,
    /// In which form the key stands there.
    pub form: String,
}

/// Which entry of a JSON list is this payment's: the one with its key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PickFile {
    /// A JSON pointer to the list.
    pub from: String,
    /// From the entry on.
    pub by: String,
    /// In which form the key stands there.
    pub form: String,
}

/// Where a fact stands: one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FactFile {
    /// A place with one value at most. Where there are more, the reply is doubtful.
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
    /// The place of the value.
    pub one: String,
    /// Which texts it may be: 1024 characters at most. Where it is another, the reply is doubtful.
    pub field: FieldFile,
}

/// Something of the payment that the rail repeats, and how it is compared.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoFile {
    /// `amount`, `currency` or `destination.PART`.
    pub of: String,
    /// The place where the rail repeats it.
    pub one: String,
    /// How it is compared with what was instructed. In the file it is called `as`.
    #[serde(default, rename = "as")]
    pub compared: Compared,
}

/// How what the rail repeats is compared with what was instructed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compared {
    /// Character for character; a plus sign in front does not count.
    #[default]
    Exact,
    /// By value: `5` is `5.00`.
    Decimal,
    /// In the rail's unit.
    Minor,
    /// Of phone numbers: as the slots of these names write them.
    National,
    /// Of phone numbers: 0 and the national number.
    Local,
    /// Of phone numbers: the international one with a plus sign.
    Plus,
    /// `*` stands for a character that is not shown.
    Masked,
    /// One of the two is the end of the other.
    Suffix,
}
