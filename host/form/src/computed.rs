//! Computed values: what they are made of, and that what is signed can be taken apart in one way only.

use crate::field::Field;
use crate::file::{Computed, FormFile};
use crate::form::Form;
use crate::profile::{is_cavage_own, is_derived, is_quotable};
use crate::slot::{Piece, Slot, SlotSource, Text, TimeForm};
use crate::template::JsonTemplate;

impl Form {
    pub(crate) fn load_computed(&mut self, file: &FormFile) -> Result<(), String> {
        for (name, computed) in &file.computed {
            let key = |at: &str| format!("computed.{name}.{at}");
            check_secrets(file, name, computed)?;
            match computed {
                Computed::Basic { .. }
                | Computed::Encrypt { .. }
                | Computed::Envelope { .. }
                | Computed::Digest { .. } => {}
                Computed::HttpSignature { key_id, headers, algorithm, .. } => {
                    quotable(&key("key_id"), key_id)?;
                    quotable(&key("algorithm"), algorithm)?;
                    self.signed_headers(name, &key("headers"), headers, is_cavage_own)?;
                }
                Computed::MessageSignature { key_id, components, label, tag, alg, .. } => {
                    for (at, text) in [("key_id", Some(key_id)), ("tag", tag.as_ref()), ("alg", alg.as_ref())]
                    {
                        text.map_or(Ok(()), |text| quotable(&key(at), text))?;
                    }
                    check_label(&key("label"), label)?;
                    self.signed_headers(name, &key("components"), components, is_derived)?;
                }
                Computed::Jws { header, .. } => {
                    let template =
                        JsonTemplate::parse(header).map_err(|why| format!("{}: {why}", key("header")))?;
                    self.protected.insert(name.clone(), template);
                }
                Computed::Hmac { over, .. } | Computed::Sign { over, .. } => {
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
                .any(|slot| matches!(&slot.source, SlotSource::Computed(found, _) if found == name))
        });
        for request in carriers.filter_map(|step| step.request.as_ref()) {
            let lacking = covered.iter().filter(|covered| !is_own(covered)).find(|covered| {
                request.headers.iter().find(|(header, _)| header == *covered).is_none_or(|(_, text)| {
                    text.slots().any(|slot| {
                        slot.optional
                            || matches!(&slot.source, SlotSource::Computed(used, _) if self.signs_headers(used))
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
            SlotSource::Key(_) => char.is_ascii_alphanumeric() || char == '-',
            SlotSource::Amount { .. } => char.is_ascii_digit() || char == '.',
            SlotSource::Currency => char.is_ascii_uppercase(),
            SlotSource::Date
            | SlotSource::Time(TimeForm::Local)
            | SlotSource::AcceptedDate
            | SlotSource::AcceptedTime => char.is_ascii_digit() || "-+:TZ".contains(char),
            SlotSource::Time(TimeForm::Http) => char.is_ascii_alphanumeric() || ", :".contains(char),
            SlotSource::Time(TimeForm::Unix) => char.is_ascii_digit(),
            SlotSource::Destination { part, .. } => field(self.parts.get(part)) || char == '+',
            SlotSource::Narrative => field(self.narrative.as_ref()),
            SlotSource::Payload(name) => field(self.payload.get(name).map(|(_, field)| field)),
            SlotSource::Adapter(name) => field(self.variables.get(name).map(|(_, field)| field)),
            SlotSource::Captured(name) => self
                .steps
                .values()
                .flat_map(|step| &step.replies)
                .flat_map(|(_, rule)| rule.captures())
                .any(|(found, field)| found == name && field.may_hold(char)),
            SlotSource::Setting(name) => self.settings.get(name).is_some_and(|value| value.contains(char)),
            _ => true,
        }
    }

    /// It is there only in a request that is made again.
    pub(crate) fn answers_challenge(&self, slot: &Slot) -> bool {
        match &slot.source {
            SlotSource::Challenge => true,
            SlotSource::Computed(name, _) => self
                .over
                .get(name)
                .is_some_and(|text| text.slots().any(|slot| slot.source == SlotSource::Challenge)),
            _ => false,
        }
    }

    /// It proves a secret and does not tell it.
    pub(crate) fn is_signature(&self, slot: &Slot) -> bool {
        let SlotSource::Computed(name, _) = &slot.source else { return false };
        self.computed.get(name).is_some_and(Computed::is_proof)
    }

    pub(crate) fn needs_body(&self, name: &str) -> bool {
        match self.computed.get(name) {
            Some(Computed::Envelope { .. } | Computed::Digest { .. } | Computed::Jws { .. }) => true,
            Some(_) => self
                .over
                .get(name)
                .is_some_and(|text| text.slots().any(|slot| slot.source == SlotSource::Body)),
            None => false,
        }
    }
}

/// Its key and its secrets are in the file.
fn check_secrets(file: &FormFile, name: &str, computed: &Computed) -> Result<(), String> {
    if let Some(used) = computed.key().filter(|used| !file.keys.iter().any(|key| key == used)) {
        return Err(format!("computed.{name}.key is {used:?}, expected one of [keys]"));
    }
    let secrets = match computed {
        Computed::Basic { user, password } => vec![("user", user), ("password", password)],
        Computed::Encrypt { secret, .. } => vec![("secret", secret)],
        _ => Vec::new(),
    };
    match secrets.into_iter().find(|(_, secret)| !file.secrets.contains(secret)) {
        Some((at, secret)) => Err(format!("computed.{name}.{at} is {secret:?}, expected one of [secrets]")),
        None => Ok(()),
    }
}

fn check_label(key: &str, label: &str) -> Result<(), String> {
    let is_sound = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match !label.is_empty() && label.bytes().all(is_sound) {
        true => Ok(()),
        false => Err(format!("{key} is {label:?}, expected lower-case letters and digits")),
    }
}

fn quotable(key: &str, text: &str) -> Result<(), String> {
    match is_quotable(text) {
        true => Ok(()),
        false => Err(format!("{key} is {text:?}, expected visible characters without quotation marks")),
    }
}
