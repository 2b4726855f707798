//! A reply in, what it says of the payment out: the host's reading, and the adapter's, which can only brake.

use std::collections::{BTreeMap, BTreeSet};

use payment::{Instruction, plain};
use serde_json::{Value, json};

use crate::callback::Callback;
use crate::codes::{Code, Meaning, Operation, Side};
use crate::file::StepClass;
use crate::form::Form;
use crate::read::{Read, Unread};
use crate::reply::{Reply, ReplyRule};
use crate::step::Step;

/// What a reply says of the payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// None: nothing that the table knows.
    pub meaning: Option<Meaning>,
    /// The code that decided.
    pub code: Option<Code>,
    /// The rail's own name for the payment.
    pub reference: Option<String>,
    /// Every code that was read. Empty where nothing was.
    pub facts: Vec<Code>,
    /// What later requests of this payment carry.
    pub captured: BTreeMap<String, String>,
    /// What the rail repeats of the payment and is not as instructed, by name.
    pub differs: Vec<String>,
    /// What it does not repeat though it should.
    pub unrepeated: Vec<String>,
    /// Why it is not more than that.
    pub why: Option<String>,
    /// It could be read in two ways, or is about another payment: not even its status counts.
    pub is_doubtful: bool,
    /// A fact says by itself that it is the rail's last word.
    pub is_final: bool,
    /// The adapter reads something else in it.
    pub veto: Option<Veto>,
    /// Its facts, where they come to something else.
    pub theirs: Vec<(String, String)>,
}

/// What the adapter made of a reply that the host took for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Veto {
    /// Paid, where the host reads not paid, or the other way round.
    Opposite,
    /// Anything less.
    Doubt,
}

/// What is kept of the adapter's reading.
const FACTS_MAX: usize = 10;
const VALUE_CHARS_MAX: usize = 100;

impl Veto {
    /// Its name in the record of an attempt.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opposite => "opposite",
            Self::Doubt => "doubt",
        }
    }
}

impl Reading {
    /// Nothing was read.
    pub fn nothing(why: impl Into<String>) -> Self {
        Self {
            meaning: None,
            code: None,
            reference: None,
            facts: Vec::new(),
            captured: BTreeMap::new(),
            differs: Vec::new(),
            unrepeated: Vec::new(),
            why: Some(why.into()),
            is_doubtful: false,
            is_final: false,
            veto: None,
            theirs: Vec::new(),
        }
    }

    /// All of it for the record, short: class, facts, what differs, whether the adapter vetoed it.
    pub fn record(&self) -> Value {
        let mut record = serde_json::Map::new();
        if let Some(meaning) = self.meaning {
            record.insert("class".to_owned(), meaning.as_str().into());
        }
        if !self.facts.is_empty() {
            let facts: Vec<Value> =
                self.facts.iter().map(|code| json!([code.field, plain(&code.value)])).collect();
            record.insert("facts".to_owned(), facts.into());
        }
        if !self.differs.is_empty() {
            record.insert("differs".to_owned(), self.differs.clone().into());
        }
        if let Some(veto) = self.veto {
            record.insert("veto".to_owned(), veto.as_str().into());
            let theirs: Vec<Value> =
                self.theirs.iter().map(|(name, value)| json!([name, plain(value)])).collect();
            record.insert("adapter".to_owned(), theirs.into());
        }
        Value::Object(record)
    }

    /// What it says of the money.
    pub fn side(&self) -> Side {
        self.meaning.map_or(Side::Open, Meaning::side)
    }
}

impl Form {
    /// What the host reads in a callback that is known to be the rail's: as in the reply to a question.
    pub fn read_callback(
        &self,
        callback: &Callback,
        headers: &[(String, String)],
        body: &[u8],
        payment: &Instruction,
    ) -> Reading {
        let reply = Reply { status: 200, headers, body };
        self.read_by(&callback.rule, Operation::QueryStatus, &reply, payment, false)
    }

    /// What the host reads in a reply to a step.
    pub fn read(
        &self,
        step: &Step,
        operation: Operation,
        reply: &Reply<'_>,
        payment: &Instruction,
    ) -> Reading {
        if reply.status == 206 || (300..400).contains(&reply.status) {
            return Reading {
                is_doubtful: true,
                ..Reading::nothing(format!("HTTP status {} alone decides nothing", reply.status))
            };
        }
        let Some((_, rule)) = step.replies.iter().find(|(pattern, _)| pattern.fits(reply.status)) else {
            // Its status may still be a word.
            return self.judged(operation, reply.status, Read::default());
        };
        let reading = self.read_by(rule, operation, reply, payment, step.asked_by_key);
        match step.class {
            StepClass::Prepare => self.prepared(reply.status, reading),
            _ => reading,
        }
    }

    /// A step before the payment is judged by its facts alone.
    fn prepared(&self, status: u16, reading: Reading) -> Reading {
        if reading.facts.is_empty() {
            return reading;
        }
        let judged = self.codes.judge_prepared(status, &reading.facts);
        let why = judged.why.map(str::to_owned);
        Reading { meaning: judged.meaning, code: judged.code, why, is_final: judged.is_final, ..reading }
    }

    pub(crate) fn read_by(
        &self,
        rule: &ReplyRule,
        operation: Operation,
        reply: &Reply<'_>,
        payment: &Instruction,
        asked_by_key: bool,
    ) -> Reading {
        match rule.read(self, reply, payment, asked_by_key) {
            Ok(read) => self.judged(operation, reply.status, read),
            // A page of a gateway: its status may still be a word.
            Err(Unread::Foreign(why)) => {
                let reading = self.judged(operation, reply.status, Read::default());
                Reading { why: Some(why), ..reading }
            }
            Err(Unread::Doubtful(why)) => Reading { is_doubtful: true, ..Reading::nothing(why) },
        }
    }

    /// Why the request that pays may not follow a step before it; none where it may. All that the step is to bring is there, all that
    /// the rail repeats is as instructed, and nothing speaks against it.
    pub fn unprepared(&self, step: &Step, status: u16, reading: &Reading) -> Option<String> {
        let lacking = step.captures().find(|name| !reading.captured.contains_key(*name));
        let goes_on = match reading.meaning {
            // Nothing was read: that is well only where nothing but values was to be read.
            None => {
                let rule =
                    step.replies.iter().find(|(pattern, _)| pattern.fits(status)).map(|(_, rule)| rule);
                let brings =
                    rule.is_some_and(|rule| rule.captures().next().is_some() || rule.names().is_empty());
                reading.facts.is_empty() && !reading.is_doubtful && reading.why.is_none() && brings
            }
            Some(meaning) => {
                matches!(meaning, Meaning::Success | Meaning::Received) && reading.veto.is_none()
            }
        };
        if !(200..300).contains(&status) || !goes_on {
            let why = reading.why.clone().unwrap_or_default();
            Some(format!("{} was answered with {status} {why}", step.name).trim_end().to_owned())
        } else if !reading.differs.is_empty() {
            Some(format!("{} shows a different {}", step.name, reading.differs.join(", ")))
        } else if !reading.unrepeated.is_empty() {
            Some(format!("{} does not repeat {}", step.name, reading.unrepeated.join(", ")))
        } else {
            lacking.map(|name| format!("the reply to {} has no {name}", step.name))
        }
    }

    fn judged(&self, operation: Operation, status: u16, read: Read) -> Reading {
        let judged = self.codes.judge(operation, status, &read.facts);
        Reading {
            meaning: judged.meaning,
            code: judged.code,
            reference: read.reference,
            facts: read.facts,
            captured: read.captured,
            differs: read.differs,
            unrepeated: read.unrepeated,
            why: judged.why.map(str::to_owned),
            is_doubtful: false,
            is_final: judged.is_final,
            veto: None,
            theirs: Vec::new(),
        }
    }

    /// The host's reading with that of the adapter beside it: facts by name, or none where it cannot read the reply. Its facts are
    /// judged by the same table, and where they come to something else the verdict is unknown. It never makes a verdict.
    #[must_use]
    pub fn with_adapter(
        &self,
        reading: Reading,
        class: StepClass,
        operation: Operation,
        status: u16,
        facts: Option<&[(String, String)]>,
    ) -> Reading {
        if reading.side() == Side::Open {
            return reading;
        }
        let known = |(name, _): &&(String, String)| self.reads(name);
        let facts: Option<Vec<(String, String)>> =
            facts.map(|facts| facts.iter().filter(known).cloned().collect());
        let side = facts.as_ref().map(|facts| {
            let codes: Vec<Code> = facts.iter().map(|(name, value)| Code::new(name, value.clone())).collect();
            let judged = match class {
                StepClass::Prepare => self.codes.judge_prepared(status, &codes),
                _ => self.codes.judge(operation, status, &codes),
            };
            judged.meaning.map_or(Side::Open, Meaning::side)
        });
        let veto = match (reading.side(), side) {
            (ours, Some(theirs)) if ours == theirs => return reading,
            (Side::Paid, Some(Side::NotPaid)) | (Side::NotPaid, Some(Side::Paid)) => Veto::Opposite,
            _ => Veto::Doubt,
        };
        let short = |(name, value): (String, String)| (name, value.chars().take(VALUE_CHARS_MAX).collect());
        let theirs = facts.into_iter().flatten().take(FACTS_MAX).map(short).collect();
        Reading { veto: Some(veto), theirs, ..reading }
    }

    /// Whether a step of the file reads a fact of this name.
    fn reads(&self, name: &str) -> bool {
        self.rules().any(|rule| rule.names().contains(name))
    }

    /// The names of all facts that the file reads.
    pub fn fact_names(&self) -> Vec<String> {
        self.rules().flat_map(ReplyRule::names).collect::<BTreeSet<_>>().into_iter().collect()
    }
}
