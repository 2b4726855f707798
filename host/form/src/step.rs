//! One step of the form: its request, and how its replies are read.

use std::collections::BTreeSet;

use crate::file::{ChallengeFile, StepClass};
use crate::reply::ReplyRule;
use crate::request::RequestTemplate;
use crate::slot::{Slot, SlotSource};

/// One request of the form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its name in `[steps]`.
    pub name: String,
    /// What the request can do.
    pub class: StepClass,
    /// Made anew for every attempt.
    pub again: bool,
    /// A refusal that asks for an answer.
    pub challenge: Option<ChallengeFile>,
    /// None for a mock.
    pub request: Option<RequestTemplate>,
    pub(crate) replies: Vec<(StatusPattern, ReplyRule)>,
    /// The request names the payment by its key and by nothing else.
    pub asked_by_key: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StatusPattern {
    Exact(u16),
    /// 4 for 4xx.
    Hundred(u16),
    Any,
}

impl StatusPattern {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "any" => Some(Self::Any),
            _ => match text.strip_suffix("xx") {
                Some(hundred) => {
                    hundred.parse().ok().filter(|hundred| (1..=5).contains(hundred)).map(Self::Hundred)
                }
                None => text.parse().ok().filter(|status| (100..=599).contains(status)).map(Self::Exact),
            },
        }
    }

    pub(crate) fn fits(self, status: u16) -> bool {
        match self {
            Self::Exact(exact) => exact == status,
            Self::Hundred(hundred) => status / 100 == hundred,
            Self::Any => true,
        }
    }
}

impl Step {
    /// Every slot of its request.
    pub(crate) fn slots(&self) -> &[Slot] {
        self.request.as_ref().map_or(&[], RequestTemplate::slots)
    }

    /// The names of the captured values that it carries.
    pub fn carries(&self) -> BTreeSet<&str> {
        self.slots()
            .iter()
            .filter_map(|slot| match &slot.source {
                SlotSource::Captured(name) => Some(name.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The names of what its replies bring for later requests.
    pub fn captures(&self) -> impl Iterator<Item = &str> {
        let names: BTreeSet<&str> =
            self.replies.iter().flat_map(|(_, rule)| rule.captures().map(|(name, _)| name)).collect();
        names.into_iter()
    }

    /// What is read back of the payment in every reply that brings something.
    pub(crate) fn repeats(&self) -> BTreeSet<&str> {
        let mut rules = self
            .replies
            .iter()
            .filter(|(_, rule)| self.class == StepClass::Prepare && rule.captures().next().is_some())
            .map(|(_, rule)| rule.repeats().collect::<BTreeSet<&str>>());
        let first = rules.next().unwrap_or_default();
        rules.fold(first, |all, one| all.intersection(&one).copied().collect())
    }

    /// Those that say what is paid to whom.
    pub(crate) fn money_slots(&self) -> &[Slot] {
        self.request.as_ref().map_or(&[], RequestTemplate::money_slots)
    }

    pub(crate) fn writes_part(&self, part: &str) -> bool {
        self.money_slots()
            .iter()
            .any(|slot| matches!(&slot.source, SlotSource::Destination { part: found, .. } if found == part))
    }
}
