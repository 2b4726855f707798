//! Where a value may stand: every slot finds what it names, and what is signed can be taken apart in one way only.

use std::collections::BTreeSet;

use crate::field::{Field, Writing};
use crate::file::{Computed, FormFile, StepClass};
use crate::form::Form;
use crate::profile::{is_cavage_own, is_derived, is_quotable};
use crate::request::RequestTemplate;
use crate::slot::{AmountForm, Piece, Slot, Source, Text, TimeForm};
use crate::step::Step;
use crate::template::JsonTemplate;

impl Form {
    pub(crate) fn load_computed(&mut self, file: &FormFile) -> Result<(), String> {
        for (name, computed) in &file.computed {
            let key = |at: &str| format!("computed.{name}.{at}");
            let known_secret = |at: &str, secret: &String| match file.secrets.contains(secret) {
                true => Ok(()),
                false => Err(format!("{} is {secret:?}, expected one of [secrets]", key(at))),
            };
            let known_key = |used: &String| match file.keys.contains(used) {
                true => Ok(()),
                false => Err(format!("{} is {used:?}, expected one of [keys]", key("key"))),
            };
            match computed {
                Computed::Basic { user, password } => {
                    known_secret("user", user)?;
                    known_secret("password", password)?;
                }
                Computed::Encrypt { key: used, secret } => {
                    known_key(used)?;
                    known_secret("secret", secret)?;
                }
                Computed::Envelope { key: used } => known_key(used)?,
                Computed::Digest { .. } => {}
                Computed::HttpSignature { key: used, key_id, headers, algorithm } => {
                    known_key(used)?;
                    quotable(&key("key_id"), key_id)?;
                    quotable(&key("algorithm"), algorithm)?;
                    self.signed_headers(name, &key("headers"), headers, is_cavage_own)?;
                }
                Computed::MessageSignature { key: used, key_id, components, label, tag, alg, .. } => {
                    known_key(used)?;
                    for (at, text) in [("key_id", Some(key_id)), ("tag", tag.as_ref()), ("alg", alg.as_ref())]
                    {
                        text.map_or(Ok(()), |text| quotable(&key(at), text))?;
                    }
                    if label.is_empty()
                        || !label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
                    {
                        return Err(format!(
                            "{} is {label:?}, expected lower-case letters and digits",
                            key("label")
                        ));
                    }
                    self.signed_headers(name, &key("components"), components, is_derived)?;
                }
                Computed::Jws { key: used, header, .. } => {
                    known_key(used)?;
                    let template =
                        JsonTemplate::parse(header).map_err(|why| format!("{}: {why}", key("header")))?;
                    self.protected.insert(name.clone(), template);
                }
                Computed::Hmac { key: used, over, .. } | Computed::Sign { key: used, over, .. } => {
                    known_key(used)?;
                    let text = Text::parse(over).map_err(|problem| format!("{}: {problem}", key("over")))?;
                    if let Some(problem) = self.ambiguous(&text) {
                        return Err(format!("{}: {problem}", key("over")));
                    }
                    self.over.insert(name.clone(), text);
                }
            }
        }
        Ok(())
    }

    /// What a signature covers is in every request that carries it, and is no signature itself.
    fn signed_headers(
        &self,
        name: &str,
        key: &str,
        covered: &[String],
        is_own: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        if covered.is_empty() || (1..covered.len()).any(|at| covered[..at].contains(&covered[at])) {
            return Err(format!("{key} is empty or has one twice, expected what is signed"));
        }
        let carriers = self.steps.values().filter(|step| {
            step.slots()
                .iter()
                .any(|slot| matches!(&slot.source, Source::Computed(found, _) if found == name))
        });
        for request in carriers.filter_map(|step| step.request.as_ref()) {
            let lacking = covered.iter().filter(|covered| !is_own(covered)).find(|covered| {
                request.headers.iter().find(|(header, _)| header == *covered).is_none_or(|(_, text)| {
                    text.slots().any(|slot| {
                        slot.optional
                            || matches!(&slot.source, Source::Computed(used, _) if self.signs_headers(used))
                    })
                })
            });
            if let Some(lacking) = lacking {
                return Err(format!(
                    "{key} has {lacking:?}, expected a header that each request with {{computed.{name}}} has, and no signature"
                ));
            }
        }
        Ok(())
    }

    /// It is made of the other headers.
    pub(crate) fn signs_headers(&self, name: &str) -> bool {
        let computed = self.computed.get(name);
        matches!(computed, Some(Computed::HttpSignature { .. } | Computed::MessageSignature { .. }))
    }

    /// Two payments must not be signed by one text: values are kept apart by constants that they cannot hold.
    pub(crate) fn ambiguous(&self, text: &Text) -> Option<String> {
        text.0.windows(2).find_map(|pair| match pair {
            [Piece::Slot(left), Piece::Slot(right)] => {
                Some(format!("{} and {} stand side by side, expected a separator", left.text, right.text))
            }
            [Piece::Slot(slot), Piece::Const(separator)] | [Piece::Const(separator), Piece::Slot(slot)] => {
                let first = separator.chars().next()?;
                self.may_hold(slot, first).then(|| {
                    format!("{} may hold {first:?}, expected a separator that it cannot hold", slot.text)
                })
            }
            _ => None,
        })
    }

    pub(crate) fn may_hold(&self, slot: &Slot, char: char) -> bool {
        let field = |field: Option<&Field>| field.is_some_and(|field| field.may_hold(char));
        match &slot.source {
            _ if slot.table.is_some() => true,
            Source::Key(_) => char.is_ascii_alphanumeric() || char == '-',
            Source::Amount { .. } => char.is_ascii_digit() || char == '.',
            Source::Currency => char.is_ascii_uppercase(),
            Source::Date | Source::Time(TimeForm::Local) | Source::AcceptedDate | Source::AcceptedTime => {
                char.is_ascii_digit() || "-+:TZ".contains(char)
            }
            Source::Time(TimeForm::Http) => char.is_ascii_alphanumeric() || ", :".contains(char),
            Source::Time(TimeForm::Unix) => char.is_ascii_digit(),
            Source::Destination { part, .. } => field(self.parts.get(part)) || char == '+',
            Source::Narrative => field(self.narrative.as_ref()),
            Source::Payload(name) => field(self.payload.get(name).map(|(_, field)| field)),
            Source::Adapter(name) => field(self.variables.get(name).map(|(_, field)| field)),
            Source::Captured(name) => self
                .steps
                .values()
                .flat_map(|step| &step.replies)
                .flat_map(|(_, rule)| rule.captures())
                .any(|(found, field)| found == name && field.may_hold(char)),
            Source::Setting(name) => self.settings.get(name).is_some_and(|value| value.contains(char)),
            _ => true,
        }
    }

    /// Every slot finds what it names, and stands where it may.
    pub(crate) fn check_slots(&self, file: &FormFile) -> Result<(), String> {
        let mut used: BTreeSet<&String> = BTreeSet::new();
        let brings_key = |step: &Step| file.fetched.values().any(|name| *name == step.name);
        for step in self.steps.values() {
            for (at, text) in step.request.iter().flat_map(RequestTemplate::texts) {
                for slot in text.slots() {
                    let wrong = |why: String| format!("steps.{}.{at}: {} {why}", step.name, slot.text);
                    self.check_slot(file, slot).map_err(wrong)?;
                    if !step.class.is_of_payment() && is_of_payment(slot) {
                        return Err(wrong("is a payment's, expected none here".to_owned()));
                    }
                    // A token is not fetched with a token; a key may be, and so may a balance.
                    let is_token = matches!(slot.source, Source::Token(_));
                    if is_token && step.class == StepClass::Session && !brings_key(step) {
                        return Err(wrong("is a token, expected none where tokens are fetched".to_owned()));
                    }
                    let key = match &slot.source {
                        Source::Computed(name, _) => self.computed.get(name).and_then(Computed::key),
                        _ => None,
                    };
                    if step.class == StepClass::Session
                        && key.is_some_and(|key| file.fetched.contains_key(key))
                    {
                        return Err(wrong(
                            "needs a key that is fetched, expected none in a session".to_owned(),
                        ));
                    }
                    if self.answers_challenge(slot) {
                        if step.challenge.is_none() {
                            return Err(wrong("answers a challenge, expected steps.….challenge".to_owned()));
                        }
                        if !slot.optional || !at.starts_with("headers") {
                            return Err(wrong(
                                "answers a challenge, expected it with a ? and in a header".to_owned(),
                            ));
                        }
                    }
                    if matches!(slot.source, Source::Body | Source::Base) {
                        return Err(wrong("stands where it does not belong".to_owned()));
                    }
                    if slot.optional && text.slots().count() > 1 {
                        return Err(wrong(
                            "is optional beside another value, which would go with it".to_owned(),
                        ));
                    }
                    if at == "headers.content-type" {
                        return Err(wrong("says how the body is read, expected a constant".to_owned()));
                    }
                    if at == "path" && ['/', '\\', '%'].into_iter().any(|char| self.may_hold(slot, char)) {
                        return Err(wrong(
                            "may hold a slash, a backslash or a percent sign, expected none in a path"
                                .to_owned(),
                        ));
                    }
                    let in_address = at.starts_with("path") || at.starts_with("query");
                    if slot.is_secret() && in_address && !self.is_signature(slot) {
                        return Err(wrong("is a secret, expected none in an address".to_owned()));
                    }
                    if let Source::Adapter(name) = &slot.source {
                        if !step.class.is_of_payment() || in_address || at.starts_with("headers") {
                            return Err(wrong("is the adapter's, expected that in bodies only".to_owned()));
                        }
                        used.insert(name);
                    }
                    let over_body =
                        matches!(&slot.source, Source::Computed(name, _) if self.needs_body(name));
                    let over_headers =
                        matches!(&slot.source, Source::Computed(name, _) if self.signs_headers(name));
                    if over_headers && !at.starts_with("headers") {
                        return Err(wrong("is made of the headers, expected it in a header".to_owned()));
                    }
                    if over_body && !at.starts_with("headers") {
                        return Err(wrong("is made of the body, expected it in a header".to_owned()));
                    }
                }
            }
        }
        let headers = self.protected.iter().flat_map(|(name, template)| {
            let texts = template.all_texts().into_iter();
            texts.map(move |(_, text)| (format!("computed.{name}.header"), text))
        });
        let over = self.over.iter().map(|(name, text)| (format!("computed.{name}.over"), text));
        for (key, text) in over.chain(headers) {
            for slot in text.slots() {
                let wrong = |why: String| format!("{key}: {} {why}", slot.text);
                self.check_slot(file, slot).map_err(wrong)?;
                if slot.optional {
                    return Err(wrong("is optional, expected what is signed to be there".to_owned()));
                }
                let in_header = key.ends_with(".header");
                let is_misplaced = match slot.source {
                    Source::Computed(..) | Source::Base | Source::Token(_) => true,
                    Source::Adapter(_) | Source::Secret(_) | Source::Challenge => in_header,
                    _ => false,
                };
                if is_misplaced {
                    return Err(wrong("stands where it does not belong".to_owned()));
                }
            }
        }
        let slots: Vec<&Slot> = self.steps.values().flat_map(Step::slots).collect();
        let is_written = |name: &&String| {
            slots.iter().any(|slot| matches!(&slot.source, Source::Computed(found, _) if found == *name))
        };
        if let Some(name) = self.computed.keys().find(|name| !is_written(name)) {
            return Err(format!("computed.{name} is in no request, expected {{computed.{name}}} in one"));
        }
        match self.variables.keys().find(|name| !self.is_mock && !used.contains(name)) {
            Some(name) => {
                Err(format!("variables.{name} is in no request, expected {{adapter.{name}}} in one"))
            }
            None => Ok(()),
        }
    }

    /// It is there only in a request that is made again.
    pub(crate) fn answers_challenge(&self, slot: &Slot) -> bool {
        match &slot.source {
            Source::Challenge => true,
            Source::Computed(name, _) => self
                .over
                .get(name)
                .is_some_and(|text| text.slots().any(|slot| slot.source == Source::Challenge)),
            _ => false,
        }
    }

    /// It proves a secret and does not tell it.
    fn is_signature(&self, slot: &Slot) -> bool {
        let Source::Computed(name, _) = &slot.source else { return false };
        self.computed.get(name).is_some_and(Computed::is_proof)
    }

    pub(crate) fn needs_body(&self, name: &str) -> bool {
        match self.computed.get(name) {
            Some(Computed::Envelope { .. } | Computed::Digest { .. } | Computed::Jws { .. }) => true,
            Some(_) => {
                self.over.get(name).is_some_and(|text| text.slots().any(|slot| slot.source == Source::Body))
            }
            None => false,
        }
    }

    pub(crate) fn check_slot(&self, file: &FormFile, slot: &Slot) -> Result<(), String> {
        let known = |is_known: bool, section: &str| match is_known {
            true => Ok(()),
            false => Err(format!("is not in {section}")),
        };
        if slot.table.is_some() && matches!(slot.source, Source::Key(_) | Source::Amount { .. }) {
            return Err("goes through a table, expected the host's own value".to_owned());
        }
        if let Some(table) = &slot.table {
            let table = self.tables.get(table).ok_or("names a table that is not in [tables]")?;
            let lacking = self.currencies.iter().find(|code| !table.contains_key(*code));
            if slot.source == Source::Currency
                && let Some(code) = lacking
            {
                return Err(format!("goes through a table without {code}"));
            }
        }
        match &slot.source {
            Source::Destination { part, writing } => {
                let field = self.parts.get(part).ok_or("is not in destination.parts")?;
                if *writing != Writing::Plain && !field.is_msisdn() {
                    return Err("is written as a phone number and is none".to_owned());
                }
                match field.optional == slot.optional
                    || self.destination.one_of.contains(part) && slot.optional
                {
                    true => Ok(()),
                    false => Err("has a ? and is not optional, or the other way round".to_owned()),
                }
            }
            Source::Narrative => {
                known(self.narrative.is_some(), "[narrative]")?;
                known(slot.optional, "every payment, expected {narrative?}")
            }
            Source::Payload(name) => {
                let (_, field) = self.payload.get(name).ok_or("is not in [payload]")?;
                known(field.optional == slot.optional, "step with its optional: both or neither have it")
            }
            Source::Setting(name) => known(self.settings.contains_key(name) || slot.optional, "[settings]"),
            Source::Secret(name) => known(file.secrets.contains(name), "[secrets]"),
            Source::Token(name) => known(file.tokens.contains_key(name), "[tokens]"),
            Source::Computed(name, value) => {
                let found = self.computed.get(name).ok_or("is not in [computed]")?;
                match (found.values(), value.as_deref()) {
                    ([], None) => Ok(()),
                    ([], Some(_)) => Err("has one value only".to_owned()),
                    (values, Some(value)) if values.contains(&value) => Ok(()),
                    (values, _) => Err(format!("has several values, expected .{}", values.join(" or ."))),
                }
            }

            Source::Adapter(name) => {
                let (_, field) = self.variables.get(name).ok_or("is not in [variables]")?;
                known(field.optional == slot.optional, "step with its optional: both or neither have it")
            }
            Source::Amount { form: AmountForm::Minor, .. } => {
                match self.currencies.iter().find(|code| !self.amount.minor.contains_key(*code)) {
                    Some(code) => Err(format!("needs amount.minor.{code}, how many of them one {code} is")),
                    None => Ok(()),
                }
            }
            Source::Callback => known(slot.optional, "every host, expected {callback?}"),
            Source::Captured(name) => {
                let is_there = self.steps.values().any(|step| step.captures().any(|found| found == name));
                known(is_there, "the capture of a step")?;
                known(!slot.optional, "every payment, expected it without ?")
            }
            _ => Ok(()),
        }
    }
}

fn quotable(key: &str, text: &str) -> Result<(), String> {
    match is_quotable(text) {
        true => Ok(()),
        false => Err(format!("{key} is {text:?}, expected visible characters without quotation marks")),
    }
}

fn is_of_payment(slot: &Slot) -> bool {
    matches!(
        slot.source,
        Source::Key(_)
            | Source::Amount { .. }
            | Source::Currency
            | Source::Destination { .. }
            | Source::Narrative
            | Source::Payload(_)
            | Source::Adapter(_)
            | Source::Captured(_)
            | Source::Callback
            | Source::AcceptedDate
            | Source::AcceptedTime
            | Source::Challenge
    )
}
