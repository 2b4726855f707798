//! A reply in, facts out. Strict: what is there twice, is not a plain text, or is about another payment is not read.

use std::collections::BTreeSet;

use payment::KeyForm;

use crate::doc::{Doc, Path, is_blank};
use crate::field::Field;
use crate::reply_file::{BoundFile, CaptureFile, Compared, EchoFile, FactFile, Format, PickFile, ReplyFile};

/// A reply as it came.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'r> {
    /// HTTP status. 206 and 300 to 399 decide nothing, whatever the body says.
    pub status: u16,
    /// Names and values; names may be in any case.
    pub headers: &'r [(String, String)],
    /// The whole body as it came.
    pub body: &'r [u8],
}

/// How a reply is read, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyRule {
    pub(crate) format: Format,
    pub(crate) bound: Vec<(Path, KeyForm)>,
    pub(crate) pick: Option<(Path, Path, KeyForm)>,
    pub(crate) facts: Vec<(String, Fact)>,
    pub(crate) reference: Option<Fact>,
    pub(crate) capture: Vec<(String, Path, Field)>,
    pub(crate) echo: Vec<(String, Path, Compared)>,
    pub(crate) only_at: Vec<Path>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) place: Selector,
    pub(crate) unless: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selector {
    One(Path),
    FirstOf(Vec<Path>),
    AllOf(Vec<Path>),
    Count(Path),
    Whole,
    Blank,
    Header(String),
}

/// The name of the fact that a list has no entry for this payment.
pub const PICKED: &str = "picked";
/// Its value.
pub const NONE: &str = "none";
/// The value of the fact that a body is blank.
const BLANK: &str = "blank";
/// Longer values are not kept.
const CAPTURED_CHARS_MAX: usize = 1024;
/// Longer values are no codes.
const VALUE_CHARS_MAX: usize = 256;

impl ReplyRule {
    /// `key` is its place in the rail file, for messages.
    pub(crate) fn load(key: &str, file: &ReplyFile) -> Result<Self, String> {
        if file.pick.is_some() && file.body != Format::Json {
            return Err(format!("{key}.pick is only allowed for JSON"));
        }
        let source = RuleSource { key, format: file.body };
        let facts = source.facts(file)?;
        let reference = |fact| Fact::load(&format!("{key}.reference"), file, fact);
        Ok(Self {
            format: file.body,
            bound: file.bound.iter().map(|bound| source.bound(bound)).collect::<Result<_, _>>()?,
            pick: file.pick.as_ref().map(|pick| source.pick(pick)).transpose()?,
            facts,
            reference: file.reference.as_ref().map(reference).transpose()?,
            capture: file
                .capture
                .iter()
                .map(|(name, file)| source.capture(name, file))
                .collect::<Result<_, _>>()?,
            echo: file.echo.iter().map(|echo| source.echo(echo)).collect::<Result<_, _>>()?,
            only_at: file.only_at.iter().map(|at| source.path("only_at", at)).collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn unbind(&mut self) {
        self.bound.clear();
    }

    /// The names under which it reads facts.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let picked = self.pick.is_some().then(|| PICKED.to_owned());
        self.facts.iter().map(|(name, _)| name.clone()).chain(picked).collect()
    }

    /// It finds out by itself whether a reply is about the payment.
    pub(crate) fn binds(&self) -> bool {
        !self.bound.is_empty() || self.pick.is_some()
    }

    pub(crate) fn reads_headers(&self) -> bool {
        let facts = self.facts.iter().map(|(_, fact)| fact);
        facts.chain(&self.reference).any(|fact| matches!(fact.place, Selector::Header(_)))
    }

    pub(crate) fn reads_anything(&self) -> bool {
        !self.facts.is_empty() || self.reference.is_some() || !self.capture.is_empty()
    }

    /// The names of what it captures, each with the texts that it may be.
    pub(crate) fn captures(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.capture.iter().map(|(name, _, field)| (name.as_str(), field))
    }

    /// The forms in which it looks for the key.
    pub(crate) fn key_forms(&self) -> impl Iterator<Item = KeyForm> {
        let picked = self.pick.iter().map(|(_, _, form)| *form);
        self.bound.iter().map(|(_, form)| *form).chain(picked)
    }

    /// All that it compares with the payment, by name.
    pub(crate) fn compares(&self) -> impl Iterator<Item = &str> {
        self.echo.iter().map(|(of, ..)| of.as_str())
    }

    /// What the rail repeats of the payment digit for digit, by name.
    pub(crate) fn repeats(&self) -> impl Iterator<Item = &str> {
        let whole = |(_, _, compared): &&(String, Path, Compared)| {
            !matches!(compared, Compared::Masked | Compared::Suffix)
        };
        self.echo.iter().filter(whole).map(|(of, ..)| of.as_str())
    }
}

/// Where a rule stands in the rail file, and what its paths lead through.
struct RuleSource<'f> {
    key: &'f str,
    format: Format,
}

impl RuleSource<'_> {
    fn path(&self, at: &str, text: &str) -> Result<Path, String> {
        Path::parse(self.format, text).map_err(|why| format!("{}.{at}: {why}", self.key))
    }

    fn key_form(&self, at: &str, text: &str) -> Result<KeyForm, String> {
        KeyForm::parse(text).ok_or_else(|| {
            format!("{}.{at} has the form {text:?}, expected one of the key: uuid, hex, hex32, …", self.key)
        })
    }

    fn bound(&self, bound: &BoundFile) -> Result<(Path, KeyForm), String> {
        Ok((self.path("bound", &bound.at)?, self.key_form("bound", &bound.form)?))
    }

    fn pick(&self, pick: &PickFile) -> Result<(Path, Path, KeyForm), String> {
        let (from, by) = (self.path("pick", &pick.from)?, self.path("pick", &pick.by)?);
        Ok((from, by, self.key_form("pick", &pick.form)?))
    }

    /// A fact that depends on another is read after it.
    fn facts(&self, file: &ReplyFile) -> Result<Vec<(String, Fact)>, String> {
        let key = self.key;
        let mut facts = Vec::new();
        for (name, fact) in &file.facts {
            if name == crate::codes::HTTP || name == PICKED {
                return Err(format!("{key}.facts.{name}: the name is the host's own, expected another one"));
            }
            facts.push((name.clone(), Fact::load(&format!("{key}.facts.{name}"), file, fact)?));
        }
        let unknown = facts.iter().find_map(|(name, fact)| {
            let other = fact.unless.as_ref()?;
            let plain = file.facts.get(other).is_some_and(|fact| fact.unless.is_none());
            (!plain || other == name).then_some((name, other))
        });
        if let Some((name, other)) = unknown {
            return Err(format!(
                "{key}.facts.{name}.unless is {other:?}, expected another fact of this reply, without an unless of its own"
            ));
        }
        facts.sort_by_key(|(_, fact)| fact.unless.is_some());
        Ok(facts)
    }

    fn capture(&self, name: &str, file: &CaptureFile) -> Result<(String, Path, Field), String> {
        let key = format!("{}.capture.{name}", self.key);
        let field = Field::read(&format!("{key}.field"), &file.field)?;
        if field.chars_max() > CAPTURED_CHARS_MAX || name.len() > 64 {
            return Err(format!(
                "{key} is too long, expected a name of at most 64 and a field of at most {CAPTURED_CHARS_MAX} characters"
            ));
        }
        match field.optional {
            true => Err(format!("{key}.field is optional, expected what is captured to be there")),
            false => Ok((name.to_owned(), self.path("capture", &file.one)?, field)),
        }
    }

    fn echo(&self, echo: &EchoFile) -> Result<(String, Path, Compared), String> {
        let EchoFile { of, one, compared } = echo;
        if !matches!(of.as_str(), "amount" | "currency") && !of.starts_with("destination.") {
            return Err(format!(
                "{}.echo.of is {of:?}, expected amount, currency or destination.PART",
                self.key
            ));
        }
        let is_exact = match of.as_str() {
            "amount" => matches!(compared, Compared::Exact | Compared::Decimal | Compared::Minor),
            "currency" => *compared == Compared::Exact,
            _ => !matches!(compared, Compared::Decimal | Compared::Minor),
        };
        match is_exact {
            true => Ok((of.clone(), self.path("echo", one)?, *compared)),
            false => Err(format!(
                "{}.echo.as is {compared:?} for {of}, expected an amount to be exact, decimal or minor and a currency exact",
                self.key
            )),
        }
    }
}

impl Fact {
    fn load(key: &str, reply: &ReplyFile, file: &FactFile) -> Result<Self, String> {
        let path = |text: &String| Path::parse(reply.body, text).map_err(|why| format!("{key}: {why}"));
        let paths = |texts: &[String]| texts.iter().map(path).collect::<Result<Vec<_>, _>>();
        let mut places = Vec::new();
        places.extend(file.one.as_ref().map(path).transpose()?.map(Selector::One));
        if !file.first_of.is_empty() {
            places.push(Selector::FirstOf(paths(&file.first_of)?));
        }
        if !file.all_of.is_empty() {
            places.push(Selector::AllOf(paths(&file.all_of)?));
        }
        places.extend(file.count.as_ref().map(path).transpose()?.map(Selector::Count));
        if file.whole {
            places.push(Selector::Whole);
        }
        if file.blank {
            places.push(Selector::Blank);
        }
        places.extend(file.header.as_ref().map(|name| Selector::Header(name.to_ascii_lowercase())));
        let (Some(place), true) = (places.pop(), places.is_empty()) else {
            return Err(format!(
                "{key} has no place or more than one, expected one of one, first_of, all_of, count, whole, blank, header"
            ));
        };
        if matches!(place, Selector::Whole) != (reply.body == Format::Text)
            && !matches!(place, Selector::Header(_) | Selector::Blank)
        {
            return Err(format!("{key}: a plain text is read as whole = true, and nothing else is"));
        }
        Ok(Self { place, unless: file.unless.clone() })
    }

    pub(crate) fn values(&self, doc: &Doc<'_>, reply: &Reply<'_>) -> Result<Vec<String>, String> {
        let values: Vec<String> = match &self.place {
            Selector::One(path) => doc.one(path)?.into_iter().collect(),
            Selector::FirstOf(paths) => {
                let mut found = None;
                for path in paths {
                    // A later place may lie around an earlier one: it is looked at only where that one is empty.
                    found = doc.one(path)?;
                    if found.is_some() {
                        break;
                    }
                }
                found.into_iter().collect()
            }
            Selector::AllOf(paths) => {
                let mut all = Vec::new();
                for path in paths {
                    for value in doc.all(path)? {
                        if !all.contains(&value) {
                            all.push(value);
                        }
                    }
                }
                all
            }
            Selector::Count(path) => doc.count(path)?.map(|count| count.to_string()).into_iter().collect(),
            Selector::Whole => doc.whole().into_iter().collect(),
            Selector::Blank => is_blank(reply.body).then(|| BLANK.to_owned()).into_iter().collect(),
            Selector::Header(name) => {
                let mut found = reply.headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
                match (found.next(), found.next()) {
                    (_, Some(_)) => return Err(format!("header {name} appears twice")),
                    (Some((_, value)), None) => vec![value.trim().to_owned()],
                    (None, None) => Vec::new(),
                }
            }
        };
        match values.iter().find(|value| value.chars().count() > VALUE_CHARS_MAX) {
            Some(_) => Err(format!("a fact has more than {VALUE_CHARS_MAX} characters")),
            None => Ok(values),
        }
    }
}
