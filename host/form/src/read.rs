//! A reply, read: whether it is about this payment, and what it says.

use std::collections::BTreeMap;

use payment::{Instruction, same_amount};
use roxmltree::Document;

use crate::codes::Code;
use crate::doc::{Doc, is_blank, is_key};
use crate::form::Form;
use crate::json::Json;
use crate::reply::{NONE, PICKED, Reply, ReplyRule};
use crate::reply_file::{Compared, Format};

impl Compared {
    fn equal(self, instructed: &str, said: &str) -> bool {
        let digits = |text: &str| text.trim_start_matches('+').to_owned();
        match self {
            Self::Exact => digits(instructed) == digits(said),
            Self::Minor | Self::National | Self::Local | Self::Plus => instructed == said,
            Self::Decimal => same_amount(instructed, said),
            Self::Masked => {
                let (instructed, said) = (digits(instructed), digits(said));
                instructed.chars().count() == said.chars().count()
                    && instructed.chars().zip(said.chars()).all(|(left, right)| right == '*' || left == right)
            }
            Self::Suffix => {
                let (instructed, said) = (digits(instructed), digits(said));
                said.len() >= 4 && (instructed.ends_with(&said) || said.ends_with(&instructed))
            }
        }
    }
}

/// What the host read in a reply that is bound to the payment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Read {
    pub facts: Vec<Code>,
    pub reference: Option<String>,
    pub captured: BTreeMap<String, String>,
    /// What the rail repeats of the payment and is not as instructed, by name.
    pub differs: Vec<String>,
    /// What it does not repeat.
    pub unrepeated: Vec<String>,
}

/// Why a reply is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is not of the format that the rail speaks: a gateway's page, or nothing. What its status says still counts.
    Foreign(String),
    /// It could be read in two ways, or is about another payment.
    Doubtful(String),
}

impl From<String> for Unread {
    fn from(why: String) -> Self {
        Self::Doubtful(why)
    }
}

impl ReplyRule {
    /// Reads a reply. `asked_by_key`: the request named the payment and nothing else, so that the reply is about it unless it says
    /// something else.
    pub(crate) fn read(
        &self,
        form: &Form,
        reply: &Reply<'_>,
        payment: &Instruction,
        asked_by_key: bool,
    ) -> Result<Read, Unread> {
        let (text, parsed);
        let utf8 =
            || str::from_utf8(reply.body).map_err(|_| Unread::Foreign("the reply is not UTF-8".to_owned()));
        let whole = match self.format {
            _ if is_blank(reply.body) => Doc::Nothing,
            Format::None => Doc::Nothing,
            Format::Json => {
                parsed = Json::read(reply.body).map_err(|error| {
                    let why = format!("the reply {error}");
                    // What begins like JSON is the rail's own, and says something that is not understood.
                    let is_json = matches!(reply.body.trim_ascii_start().first(), Some(b'{' | b'['));
                    if error.is_ambiguous || is_json { Unread::Doubtful(why) } else { Unread::Foreign(why) }
                })?;
                Doc::Json(&parsed)
            }
            Format::Xml => {
                text = Document::parse(utf8()?)
                    .map_err(|error| Unread::Foreign(format!("the reply is not valid XML: {error}")))?;
                Doc::Xml(&text)
            }
            Format::Text => Doc::Text(utf8()?),
        };
        let mut found_key = false;
        for (path, form) in &self.bound {
            for value in whole.keys(path)? {
                match is_key(&value, payment, *form) {
                    true => found_key = true,
                    false => return Err(Unread::Doubtful("the reply is about another payment".to_owned())),
                }
            }
        }
        let doc = match &self.pick {
            None => whole,
            Some((from, by, form)) => match whole.pick(from, by, *form, payment)? {
                Some(entry) => {
                    found_key = true;
                    Doc::Json(entry)
                }
                None if !asked_by_key => {
                    return Err(Unread::Doubtful(
                        "the list is empty, but the request did not ask for this payment".to_owned(),
                    ));
                }
                None => return Ok(Read { facts: vec![Code::new(PICKED, NONE)], ..Read::default() }),
            },
        };
        if !found_key && !asked_by_key {
            return Err(Unread::Doubtful("the reply does not say which payment it is about".to_owned()));
        }
        Ok(self.read_bound(form, &doc, reply, payment)?)
    }

    fn read_bound(
        &self,
        form: &Form,
        doc: &Doc<'_>,
        reply: &Reply<'_>,
        payment: &Instruction,
    ) -> Result<Read, String> {
        doc.only_at(&self.only_at)?;
        let mut read = Read::default();
        for (name, fact) in &self.facts {
            let is_there = |other: &String| read.facts.iter().any(|code| code.field == *other);
            if fact.unless.as_ref().is_some_and(is_there) {
                continue;
            }
            for value in fact.values(doc, reply)? {
                read.facts.push(Code::new(name, value));
            }
        }
        if let Some(reference) = &self.reference {
            // One that cannot be read spoils no verdict.
            read.reference = reference.values(doc, reply).ok().and_then(|values| values.into_iter().next());
        }
        for (name, path, field) in &self.capture {
            if let Some(value) = doc.one(path)? {
                let value =
                    field.check(&value).map_err(|problem| format!("{name}, to be captured, {problem}"))?;
                read.captured.insert(name.clone(), value);
            }
        }
        for (of, path, compared) in &self.echo {
            let Some(instructed) = form.instructed(payment, of, *compared) else { continue };
            match doc.one(path) {
                Ok(Some(said)) if compared.equal(&instructed, &said) => {}
                Ok(Some(_)) => read.differs.push(of.clone()),
                _ => read.unrepeated.push(of.clone()),
            }
        }
        Ok(read)
    }
}
