//! A form, loaded: everything that a rail file says about requests and replies.

use std::collections::{BTreeMap, BTreeSet};

use chrono::FixedOffset;

use crate::callback::Callback;
use crate::codes::{CodeTable, Operation};
use crate::field::Field;
use crate::file::{AmountFile, Computed, DestinationFile, WayFile};
use crate::float::FloatFile;
use crate::hours::Hours;
use crate::reply::ReplyRule;
use crate::slot::{Slot, SlotSource, Text};
use crate::step::Step;
use crate::template::JsonTemplate;

/// A rail's form, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// No network: the adapter's values are the reply.
    pub is_mock: bool,
    /// Codes of ISO 4217 that the rail pays in. Only a mock may have none, and then takes all.
    pub currencies: Vec<String>,
    /// What the rail's codes mean.
    pub codes: CodeTable,
    /// When it pays; at any time where there are none.
    pub hours: Option<Hours>,
    /// What is left to pay from, by currency.
    pub float: BTreeMap<String, FloatFile>,
    /// What the rail tells unasked and signs.
    pub callback: Option<Callback>,
    pub(crate) offset: FixedOffset,
    pub(crate) amount: AmountFile,
    pub(crate) destination: DestinationFile,
    pub(crate) parts: BTreeMap<String, Field>,
    pub(crate) narrative: Option<Field>,
    pub(crate) payload: BTreeMap<String, (String, Field)>,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) variables: BTreeMap<String, (String, Field)>,
    pub(crate) tables: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) computed: BTreeMap<String, Computed>,
    /// What is signed, by the names of computed values.
    pub(crate) over: BTreeMap<String, Text>,
    /// Protected headers, likewise.
    pub(crate) protected: BTreeMap<String, JsonTemplate>,
    pub(crate) steps: BTreeMap<String, Step>,
    /// The first that fits a payment is its way; the last one fits all, if it is there.
    pub(crate) ways: Vec<WayFile>,
    pub(crate) query_status: Vec<String>,
}

impl Form {
    /// A step by its name.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.get(name)
    }

    /// All steps, in the order of their names.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.values()
    }

    /// The same without the rule that a reply has to be about the payment. For tests of what that rule is for.
    #[doc(hidden)]
    #[must_use]
    pub fn unbound(&self) -> Self {
        let mut form = self.clone();
        for step in form.steps.values_mut() {
            step.asked_by_key = true;
            step.replies.iter_mut().for_each(|(_, rule)| rule.unbind());
        }
        form
    }

    /// Everything by which a word on a payment is read.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &ReplyRule> {
        let payments = self.steps.values().filter(|step| step.class.is_of_payment());
        let steps = payments.flat_map(|step| &step.replies).map(|(_, rule)| rule);
        steps.chain(self.callback.iter().map(|callback| &callback.rule))
    }

    /// All requests of an operation, whichever way a payment goes.
    pub fn steps_of(&self, operation: Operation) -> impl Iterator<Item = &Step> {
        let names: BTreeSet<&String> = match operation {
            Operation::Disburse => self.ways.iter().flat_map(|way| &way.steps).collect(),
            Operation::QueryStatus => self.query_status.iter().collect(),
        };
        names.into_iter().filter_map(|name| self.steps.get(name))
    }

    /// The most requests that one attempt makes, but for those that bring tokens.
    pub fn requests_max(&self) -> usize {
        self.ways.iter().map(|way| way.steps.len()).max().unwrap_or(1)
    }

    /// The request that asks what became of a payment: the first that can be filled in with what was captured.
    pub fn question(&self, captured: &BTreeMap<String, String>) -> Option<&Step> {
        let steps = self.query_status.iter().filter_map(|name| self.steps.get(name));
        steps.into_iter().find(|step| step.carries().iter().all(|name| captured.contains_key(*name)))
    }

    /// What the reply of a balance step says is left in a currency, in its smallest unit.
    pub fn float_left(&self, currency: &str, body: &[u8]) -> Result<i128, String> {
        let float = self.float.get(currency).ok_or_else(|| format!("float has no {currency}"))?;
        float.read(currency, self.amount.minor.get(currency).copied(), body)
    }

    /// Whether the rail can be asked what became of a payment.
    pub fn can_query(&self) -> bool {
        !self.query_status.is_empty()
    }

    /// What the adapter may fill in: name, purpose, and whether it may leave it out.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.variables
            .iter()
            .map(|(name, (purpose, field))| (name.as_str(), purpose.as_str(), field.optional))
    }

    /// Tokens that a step carries.
    pub fn tokens_of<'s>(&self, step: &'s Step) -> BTreeSet<&'s str> {
        let token = |slot: &'s Slot| match &slot.source {
            SlotSource::Token(name) => Some(name.as_str()),
            _ => None,
        };
        step.slots().iter().filter_map(token).collect()
    }

    /// Keys by which a step encrypts or signs.
    pub fn keys_of(&self, step: &Step) -> BTreeSet<&str> {
        let used = |slot: &Slot| match &slot.source {
            SlotSource::Computed(name, _) => self.computed.get(name).and_then(Computed::key),
            _ => None,
        };
        step.slots().iter().filter_map(used).collect()
    }
}
