//! One step of the form: its request, and how its replies are read.

use std::collections::BTreeSet;

use crate::file::{ChallengeFile, FormFile, StepClass, StepFile};
use crate::load::Form;
use crate::reply::ReplyRule;
use crate::request::RequestTemplate;
use crate::slot::{Slot, Source};

/// One request of the form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub name: String,
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

impl Form {
    pub(crate) fn load_step(&self, file: &FormFile, name: &str, step: &StepFile) -> Result<Step, String> {
        let key = format!("steps.{name}");
        let request = match (&step.request, self.is_mock) {
            (None, true) => None,
            (Some(_), true) => {
                return Err(format!("{key}.request is given, expected none: a mock has no network"));
            }
            (None, false) => return Err(format!("{key}.request is missing, expected METHOD {{base}}/path")),
            (Some(line), false) => Some(RequestTemplate::load(&key, file, line, step)?),
        };
        let mut replies = Vec::new();
        for (status, reply) in &step.reply {
            let pattern = StatusPattern::parse(status).ok_or_else(|| {
                format!("{key}.reply.{status}: expected an HTTP status, such as 200 or 4xx, or any")
            })?;
            replies.push((pattern, ReplyRule::load(&format!("{key}.reply.{status}"), reply)?));
        }
        replies.sort_by_key(|(pattern, _)| *pattern);
        let asked_by_key =
            self.is_mock || request.as_ref().is_some_and(|request| request.asks_by_key(step.class));
        if step.class.is_of_payment() {
            let unbound = replies.iter().any(|(_, rule)| rule.reads_anything() && !rule.binds());
            if unbound && !asked_by_key {
                return Err(format!(
                    "{key} reads replies that may be about another payment, expected {{key:…}} as the request's only \
                     selector, or bound in the reply"
                ));
            }
        }
        if step.again && step.class != StepClass::Prepare {
            return Err(format!("{key}.again is given, expected that of a step that prepares"));
        }
        if let Some(challenge) = &step.challenge {
            let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            if !matches!(challenge.status, 400..=499)
                || challenge.header.is_empty()
                || !challenge.header.bytes().all(is_name)
            {
                return Err(format!(
                    "{key}.challenge is {} with {:?}, expected a status of 400 to 499 and a header in lower case",
                    challenge.status, challenge.header
                ));
            }
            if !step.class.is_of_payment() {
                return Err(format!("{key}.challenge is given, expected that of a step for payments"));
            }
        }
        Ok(Step {
            name: name.to_owned(),
            class: step.class,
            again: step.again,
            challenge: step.challenge.clone(),
            request,
            replies,
            asked_by_key,
        })
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
                Source::Captured(name) => Some(name.as_str()),
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
            .any(|slot| matches!(&slot.source, Source::Destination { part: found, .. } if found == part))
    }
}
