//! Whether a payment, and what an adapter gave, fits the form. What does not is named.

use std::cmp::Ordering;

use payment::{Destination, Instruction, Violation};

use crate::field::Writing;
use crate::fill_error::FillError;
use crate::form::Form;
use crate::json::Json;
use crate::reply_file::Compared;
use crate::slot::{AmountForm, SlotSource};
use crate::step::Step;

/// What a JSON number holds that is read as a float.
const NUMBER_DIGITS_MAX: usize = 15;

impl Form {
    /// All that keeps a payment from being written into this form.
    pub fn check(&self, payment: &Instruction) -> Vec<Violation> {
        let mut violations = Vec::new();
        violations.extend(self.check_money_of(payment));
        violations.extend(self.check_destination(&payment.destination));
        if let (Some(field), Some(text)) = (&self.narrative, narrative(payment))
            && let Err(problem) = field.check(text)
        {
            violations.push(Violation::new("narrative", problem));
        }
        // Read only where something of it is wanted.
        let payload = if self.payload.is_empty() { Json::Null } else { payload(payment) };
        if payload == Json::Null && !self.payload.is_empty() {
            violations.push(Violation::new("payload", "must name each member once, whatever its case"));
            return violations;
        }
        for (name, (at, field)) in &self.payload {
            let found = payload_text(&payload, at).map_err(str::to_owned);
            let problem = match found {
                Ok(None) if field.optional => continue,
                Ok(None) => "is missing".to_owned(),
                Ok(Some(text)) => match field.check(&text) {
                    Ok(_) => continue,
                    Err(problem) => problem,
                },
                Err(problem) => problem,
            };
            violations.push(Violation::new(&format!("payload.{name}"), problem));
        }
        if violations.is_empty() {
            violations.extend(self.way(payment).err());
        }
        violations
    }

    fn check_money_of(&self, payment: &Instruction) -> Vec<Violation> {
        let mut violations = Vec::new();
        let (amount, currency) = (payment.money.amount(), payment.money.currency());
        if !self.currencies.is_empty() && !self.currencies.iter().any(|code| code == currency) {
            let problem = format!("must be {}", self.currencies.join(" or "));
            violations.push(Violation::new("currency", problem));
            return violations;
        }
        match (self.amount.min.get(currency), self.amount.max.get(currency)) {
            (Some(min), _) if compare(amount, min).is_lt() => {
                violations.push(Violation::new("amount", format!("must be {min} or more")));
            }
            (_, Some(max)) if compare(amount, max).is_gt() => {
                violations.push(Violation::new("amount", format!("must be {max} or less")));
            }
            _ => {}
        }
        for slot in self.steps.values().flat_map(Step::slots) {
            if let SlotSource::Amount { form, is_number } = slot.source
                && let Err(problem) = self.amount_text(payment, form, is_number)
                && violations.is_empty()
            {
                violations.push(Violation::new("amount", problem));
            }
        }
        violations
    }

    fn check_destination(&self, destination: &Destination) -> Vec<Violation> {
        if self.is_mock && self.parts.is_empty() {
            return Vec::new();
        }
        let mut violations = Vec::new();
        let named = |part: &str| format!("destination.{part}");
        if destination.plain.is_some() && self.destination.plain.is_none() {
            let parts: Vec<_> = self.parts.keys().map(String::as_str).collect();
            let problem = format!("must be an object with {}", parts.join(", "));
            return vec![Violation::new("destination", problem)];
        }
        let known = |name: &String| self.parts.contains_key(name) || self.destination.unused.contains(name);
        for (name, _) in destination.fields.iter().filter(|(name, _)| !known(name)) {
            violations.push(Violation::new(&named(name), "is not known to this rail"));
        }
        for (name, field) in &self.parts {
            let may_lack = field.optional || self.destination.one_of.contains(name);
            let problem = match (self.part(destination, name), may_lack) {
                (None, true) => continue,
                (None, false) => "is missing".to_owned(),
                (Some(text), _) => match field.check(text) {
                    Ok(_) => continue,
                    Err(problem) => problem,
                },
            };
            violations.push(Violation::new(&named(name), problem));
        }
        let one_of = &self.destination.one_of;
        let given = one_of.iter().filter(|name| self.part(destination, name).is_some()).count();
        if !one_of.is_empty() && given != 1 {
            let problem = format!("must have exactly one of {}", one_of.join(", "));
            violations.push(Violation::new("destination", problem));
        }
        violations
    }

    /// A part of a destination, by its own name only: a single text is the part that the file says.
    pub(crate) fn part<'d>(&self, destination: &'d Destination, name: &str) -> Option<&'d str> {
        match &destination.plain {
            Some(plain) => Some(plain.as_str()).filter(|_| self.destination.plain.as_deref() == Some(name)),
            None => {
                destination.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
            }
        }
    }

    /// What a payment says, as the rail would repeat it.
    pub(crate) fn instructed(&self, payment: &Instruction, of: &str, compared: Compared) -> Option<String> {
        match of {
            "amount" if compared == Compared::Minor => {
                self.amount_text(payment, AmountForm::Minor, false).ok()
            }
            "amount" => Some(payment.money.amount().to_owned()),
            "currency" => Some(payment.money.currency().to_owned()),
            part => {
                let name = part.strip_prefix("destination.")?;
                let text = self.part(&payment.destination, name)?;
                let Some(field) = self.parts.get(name) else { return Some(text.to_owned()) };
                let writing = match compared {
                    Compared::National => Writing::National,
                    Compared::Local => Writing::Local,
                    Compared::Plus => Writing::Plus,
                    _ => Writing::Plain,
                };
                field.write(&field.check(text).ok()?, writing)
            }
        }
    }

    /// The parts that this form writes, in their normal form: what an adapter is told of the payee.
    pub fn normal_parts(&self, destination: &Destination) -> Vec<(String, String)> {
        if self.parts.is_empty() {
            let plain = destination.plain.iter().map(|plain| (String::new(), plain.clone()));
            return plain.chain(destination.fields.iter().cloned()).collect();
        }
        let normal = |(name, field): (&String, &crate::field::Field)| {
            let text = self.part(destination, name)?;
            Some((name.clone(), field.check(text).unwrap_or_else(|_| text.to_owned())))
        };
        self.parts.iter().filter_map(normal).collect()
    }

    /// The values of the payload that this form names.
    pub fn payload_values(&self, payment: &Instruction) -> Vec<(String, String)> {
        if self.payload.is_empty() {
            return Vec::new();
        }
        let payload = payload(payment);
        let value = |(name, (at, _)): (&String, &(String, crate::field::Field))| {
            Some((name.clone(), payload_text(&payload, at).ok()??))
        };
        self.payload.iter().filter_map(value).collect()
    }

    /// Names and values of the constants in the file.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The adapter's values are those that the file declares, and nothing else.
    pub fn check_variables(&self, values: &[(String, String)]) -> Result<(), FillError> {
        for (at, (name, value)) in values.iter().enumerate() {
            let Some((_, field)) = self.variables.get(name) else {
                return Err(FillError::Adapter(format!(
                    "{:?} is not a variable of this rail file",
                    short(name)
                )));
            };
            if values[..at].iter().any(|(known, _)| known == name) {
                return Err(FillError::Adapter(format!("{name} is given twice")));
            }
            field.check(value).map_err(|problem| FillError::Adapter(format!("{name} {problem}")))?;
        }
        let lacking = self
            .variables
            .iter()
            .find(|(name, (_, field))| !field.optional && values.iter().all(|(given, _)| given != *name));
        match lacking {
            Some((name, _)) => Err(FillError::Adapter(format!("{name} is missing"))),
            None => Ok(()),
        }
    }

    pub(crate) fn amount_text(
        &self,
        payment: &Instruction,
        form: AmountForm,
        is_number: bool,
    ) -> Result<String, String> {
        let (amount, currency) = (payment.money.amount(), payment.money.currency());
        let text = match form {
            AmountForm::Decimal => amount.to_owned(),
            AmountForm::Whole => match amount.split_once('.') {
                Some((_, decimals)) if decimals.bytes().any(|digit| digit != b'0') => {
                    return Err("must have no decimals on this rail".to_owned());
                }
                Some((whole, _)) => whole.to_owned(),
                None => amount.to_owned(),
            },
            AmountForm::Minor => {
                let factor = self.amount.minor.get(currency).copied().unwrap_or_default();
                times(amount, factor).ok_or("cannot be written in this rail's unit")?
            }
        };
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        match is_number && digits > NUMBER_DIGITS_MAX {
            true => Err(format!("must have at most {NUMBER_DIGITS_MAX} digits on this rail")),
            false => Ok(text),
        }
    }
}

/// An amount in a smaller unit, exactly: it is a power of ten of the currency's, or the product is whole.
fn times(amount: &str, factor: u32) -> Option<String> {
    let (whole, decimals) = amount.split_once('.').unwrap_or((amount, ""));
    let units: u128 = format!("{whole}{decimals}").parse().ok()?;
    let scale = 10_u128.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    let product = units.checked_mul(factor.into())?;
    (factor > 0 && product % scale == 0).then(|| (product / scale).to_string())
}

/// Which of two decimal numbers is greater, whatever their length.
fn compare(left: &str, right: &str) -> Ordering {
    let parts = |text: &str| {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        (whole.trim_start_matches('0').to_owned(), decimals.trim_end_matches('0').to_owned())
    };
    let ((left, left_decimals), (right, right_decimals)) = (parts(left), parts(right));
    (left.len(), left, left_decimals).cmp(&(right.len(), right, right_decimals))
}

pub(crate) fn payload(payment: &Instruction) -> Json {
    Json::read(payment.payload.as_bytes()).unwrap_or(Json::Null)
}

/// A note of blanks is none.
pub(crate) fn narrative(payment: &Instruction) -> Option<&str> {
    payment.narrative.as_deref().filter(|text| !text.trim().is_empty())
}

/// What is shown of a name that somebody else chose.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

/// A value of the payload, as a text.
pub(crate) fn payload_text(payload: &Json, pointer: &str) -> Result<Option<String>, &'static str> {
    match payload.at(pointer) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Text(text)) => Ok(Some(text.clone())),
        Some(Json::Number(digits)) => Ok(Some(digits.clone())),
        Some(_) => Err("must be a text or a number"),
    }
}
