//! A bank that takes ISO 20022 over HTTPS: one pain.001.001.09 per payment, answered by a pain.002. What we send is in
//! [`wire`], what we read in [`report`], what it means in [`map`].
//!
//! One transfer per message, so that group, instruction and transaction have the same fate. The key's first 32 digits are
//! its MsgId, PmtInfId, InstrId and EndToEndId, the key's UUID its UETR; a payment sent again has the same ones.

mod map;
mod report;
mod wire;

use rail_sdk::http::{Failure, Request, Response};
use rail_sdk::{Adapter, Answer, Description, Instruction, Need, Violation, settings, vault};

struct Bank;

const NAME_CHARS_MAX: usize = 140;
/// Of one unstructured remittance line.
const REMITTANCE_CHARS_MAX: usize = 140;
const ACCOUNT_CHARS_MAX: usize = 34;
/// Of an instructed amount.
const DIGITS_MAX: usize = 18;
const DECIMALS_MAX: usize = 5;

impl Adapter for Bank {
    fn describe() -> Description {
        Description::new("bank", env!("CARGO_PKG_VERSION"))
            .setting(Need::required(
                "payments_url",
                "where messages are posted; a payment is asked for below it",
            ))
            .setting(Need::required("debtor_name", "as the bank knows us"))
            .setting(Need::required("debtor_account", "the account that pays"))
            .setting(Need::required("debtor_bic", "of the bank that keeps it"))
            .setting(Need::required("currency", "of the account that pays"))
            .setting(Need::required("currencies", "that may be paid from it: ZMW USD"))
            .setting(Need::required("utc_offset", "of the bank's business day: +02:00"))
            .setting(Need::required(
                "not_found",
                "all that the bank's 404 says of a payment that it does not know; empty: no 404 is believed",
            ))
            .setting(Need::required(
                "settled_by",
                "the statuses that mean paid at this bank: ACCC, or ACSC ACCC",
            ))
            .setting(Need::optional("charges", "who bears them: DEBT, CRED, SHAR or SLEV"))
            .setting(Need::optional("amount_min", "the least that may be paid"))
            .setting(Need::optional("amount_max", "the most that may be paid"))
            .secret(Need::required("api_key", "sent as a bearer token"))
    }

    fn validate(instruction: &Instruction) -> Result<(), Vec<Violation>> {
        let mut violations = Vec::new();
        let mut wrong = |field: &str, problem: String| violations.push(Violation::new(field, problem));
        let part = |name| instruction.destination.field(name);
        if let Err(problem) = wire::Account::read(instruction.destination.part("account").unwrap_or_default())
        {
            wrong("destination.account", problem);
        }
        if let Err(problem) = wire::Agent::read(part("bic"), part("bank_code")) {
            wrong(if part("bic").is_some() { "destination.bic" } else { "destination.bank_code" }, problem);
        }
        if let Some(problem) = wrong_text(part("name").unwrap_or_default(), 1, NAME_CHARS_MAX) {
            wrong("destination.name", problem);
        }
        let currencies = settings::required("currencies");
        if !currencies.split([' ', ',']).any(|currency| currency == instruction.amount.currency) {
            wrong("currency", format!("must be one of {currencies}"));
        }
        let (decimals, digits) = (
            instruction.amount.decimals(),
            instruction.amount.amount.bytes().filter(u8::is_ascii_digit).count(),
        );
        if decimals > DECIMALS_MAX || digits > DIGITS_MAX {
            wrong("amount", format!("must have {DIGITS_MAX} digits and {DECIMALS_MAX} decimals or less"));
        }
        let (least, most) = (settings::get("amount_min"), settings::get("amount_max"));
        if let Some(problem) = instruction.amount.out_of_bounds(least.as_deref(), most.as_deref()) {
            wrong("amount", problem);
        }
        if let Some(problem) =
            wrong_text(instruction.narrative.as_deref().unwrap_or_default(), 0, REMITTANCE_CHARS_MAX)
        {
            wrong("narrative", problem);
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }

    fn disburse(instruction: &Instruction) -> Answer {
        let sent = wire::initiation(instruction).map_err(Failure::NotSent).and_then(|message| {
            send(Request::post(settings::required("payments_url")).body("application/xml", message))
        });
        match sent {
            Ok(reply) => map::initiated(&reply, &instruction.key, &settings::required("settled_by")),
            Err(failure) => Answer::of_failed_disburse(failure),
        }
    }

    fn query_status(instruction: &Instruction) -> Answer {
        let url = format!("{}/{}", settings::required("payments_url"), instruction.key.hex32);
        match send(Request::get(url)) {
            Ok(reply) => {
                let (settled_by, not_found) =
                    (settings::required("settled_by"), settings::required("not_found"));
                map::status(&reply, &instruction.key, &settled_by, &not_found)
            }
            Err(failure) => Answer::of_failed_query(failure),
        }
    }
}

fn send(request: Request) -> Result<Response, Failure> {
    let handle = vault::handle("api_key").map_err(|problem| Failure::NotSent(format!("{problem:?}")))?;
    request.bearer(&handle).header("accept", "application/xml").send()
}

/// Letters of any alphabet are XML; control characters and the two that Unicode keeps for itself are not.
fn wrong_text(text: &str, least: usize, most: usize) -> Option<String> {
    if !(least..=most).contains(&text.chars().count()) {
        return Some(format!("must have {least} to {most} characters"));
    }
    let refused = text.chars().find(|char| char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}'))?;
    Some(format!("must not hold the character {refused:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_not_xml_is_refused_and_any_alphabet_is_not() {
        for text in ["Zoë <&> \"x\"", "株式会社テスト", "\u{fffd}", " "] {
            assert_eq!(wrong_text(text, 1, 140), None, "{text:?}");
        }
        for text in ["", "a\u{0}b", "a\nb", "a\u{85}b", "a\u{fffe}b", "a\u{ffff}b"] {
            assert!(wrong_text(text, 1, 140).is_some(), "{text:?}");
        }
    }
}

rail_sdk::export!(Bank);
