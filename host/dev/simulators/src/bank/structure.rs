//! The structure of pain.001.001.09 as its schema has it: which elements stand where, in which order, how often, and what a
//! text in them may be. Elements that no bank of ours has asked for are known by name and not looked into. Version .03 is looked at
//! as .09 with what it writes otherwise.

use crate::parse::Element;

const NAMESPACE: &str = "urn:iso:std:iso:20022:tech:xsd:pain.001.001.09";
const NAMESPACE_03: &str = "urn:iso:std:iso:20022:tech:xsd:pain.001.001.03";

/// An element among its siblings.
struct Part {
    name: &'static str,
    least: usize,
    most: usize,
    shape: Shape,
}

enum Shape {
    /// These, in this order.
    All(&'static [Part]),
    /// One of these.
    One(&'static [Part]),
    Text(usize),
    Is(fn(&str) -> bool, &'static str),
    Any,
}

const MANY: usize = usize::MAX;

const fn must(name: &'static str, shape: Shape) -> Part {
    Part { name, least: 1, most: 1, shape }
}

const fn may(name: &'static str, shape: Shape) -> Part {
    Part { name, least: 0, most: 1, shape }
}

const PARTY: Shape = Shape::All(&[
    may("Nm", Shape::Text(140)),
    may("PstlAdr", Shape::Any),
    may("Id", Shape::Any),
    may("CtryOfRes", Shape::Any),
    may("CtctDtls", Shape::Any),
]);

const ACCOUNT: Shape = Shape::All(&[
    must(
        "Id",
        Shape::One(&[
            must("IBAN", Shape::Is(is_iban, "an IBAN")),
            must(
                "Othr",
                Shape::All(&[
                    must("Id", Shape::Text(34)),
                    may("SchmeNm", Shape::Any),
                    may("Issr", Shape::Text(35)),
                ]),
            ),
        ]),
    ),
    may("Tp", Shape::Any),
    may("Ccy", Shape::Is(is_currency, "a currency")),
    may("Nm", Shape::Text(70)),
    may("Prxy", Shape::Any),
]);

const AGENT: Shape = Shape::All(&[
    must(
        "FinInstnId",
        Shape::All(&[
            may("BICFI", Shape::Is(is_bic, "a BIC")),
            may("ClrSysMmbId", Shape::All(&[may("ClrSysId", Shape::Any), must("MmbId", Shape::Text(35))])),
            may("LEI", Shape::Any),
            may("Nm", Shape::Text(140)),
            may("PstlAdr", Shape::Any),
            may("Othr", Shape::Any),
        ]),
    ),
    may("BrnchId", Shape::Any),
]);

const HEADER: Shape = Shape::All(&[
    must("MsgId", Shape::Text(35)),
    must("CreDtTm", Shape::Is(is_date_time, "a date and time")),
    Part { name: "Authstn", least: 0, most: 2, shape: Shape::Any },
    must("NbOfTxs", Shape::Is(is_count, "1 to 15 digits")),
    may("CtrlSum", Shape::Is(is_decimal, "a decimal number")),
    must("InitgPty", PARTY),
    may("FwdgAgt", AGENT),
]);

const TRANSFER: Shape = Shape::All(&[
    must(
        "PmtId",
        Shape::All(&[
            may("InstrId", Shape::Text(35)),
            must("EndToEndId", Shape::Text(35)),
            may("UETR", Shape::Is(is_uetr, "a lower-case UUID of version 4")),
        ]),
    ),
    may("PmtTpInf", Shape::Any),
    must(
        "Amt",
        Shape::One(&[
            must("InstdAmt", Shape::Is(is_amount, "at most 18 digits, 5 of them decimals")),
            must("EqvtAmt", Shape::Any),
        ]),
    ),
    may("XchgRateInf", Shape::Any),
    may("ChrgBr", Shape::Is(is_bearer, "DEBT, CRED, SHAR or SLEV")),
    may("ChqInstr", Shape::Any),
    may("UltmtDbtr", PARTY),
    may("IntrmyAgt1", AGENT),
    may("IntrmyAgt1Acct", ACCOUNT),
    may("IntrmyAgt2", AGENT),
    may("IntrmyAgt2Acct", ACCOUNT),
    may("IntrmyAgt3", AGENT),
    may("IntrmyAgt3Acct", ACCOUNT),
    may("CdtrAgt", AGENT),
    may("CdtrAgtAcct", ACCOUNT),
    may("Cdtr", PARTY),
    may("CdtrAcct", ACCOUNT),
    may("UltmtCdtr", PARTY),
    Part { name: "InstrForCdtrAgt", least: 0, most: MANY, shape: Shape::Any },
    may("InstrForDbtrAgt", Shape::Any),
    may("Purp", Shape::Any),
    Part { name: "RgltryRptg", least: 0, most: 10, shape: Shape::Any },
    may("Tax", Shape::Any),
    Part { name: "RltdRmtInf", least: 0, most: 10, shape: Shape::Any },
    may(
        "RmtInf",
        Shape::All(&[
            Part { name: "Ustrd", least: 0, most: MANY, shape: Shape::Text(140) },
            Part { name: "Strd", least: 0, most: MANY, shape: Shape::Any },
        ]),
    ),
    Part { name: "SplmtryData", least: 0, most: MANY, shape: Shape::Any },
]);

const PAYMENT: Shape = Shape::All(&[
    must("PmtInfId", Shape::Text(35)),
    must("PmtMtd", Shape::Is(is_method, "TRF, CHK or TRA")),
    may("BtchBookg", Shape::Any),
    may("NbOfTxs", Shape::Is(is_count, "1 to 15 digits")),
    may("CtrlSum", Shape::Is(is_decimal, "a decimal number")),
    may("PmtTpInf", Shape::Any),
    must(
        "ReqdExctnDt",
        Shape::One(&[
            must("Dt", Shape::Is(is_date, "a date")),
            must("DtTm", Shape::Is(is_date_time, "a date and time")),
        ]),
    ),
    may("PoolgAdjstmntDt", Shape::Any),
    must("Dbtr", PARTY),
    must("DbtrAcct", ACCOUNT),
    must("DbtrAgt", AGENT),
    may("DbtrAgtAcct", ACCOUNT),
    may("InstrForDbtrAgt", Shape::Any),
    may("UltmtDbtr", PARTY),
    may("ChrgBr", Shape::Is(is_bearer, "DEBT, CRED, SHAR or SLEV")),
    may("ChrgsAcct", ACCOUNT),
    may("ChrgsAcctAgt", AGENT),
    Part { name: "CdtTrfTxInf", least: 1, most: MANY, shape: TRANSFER },
]);

const INITIATION: Shape = Shape::All(&[
    must("GrpHdr", HEADER),
    Part { name: "PmtInf", least: 1, most: MANY, shape: PAYMENT },
    Part { name: "SplmtryData", least: 0, most: MANY, shape: Shape::Any },
]);

const DOCUMENT: Shape = Shape::All(&[must("CstmrCdtTrfInitn", INITIATION)]);

/// What is wrong with a message, with the path to it.
pub(super) fn check(root: &Element) -> Result<(), String> {
    if root.all().iter().any(|element| element.namespace != root.namespace) {
        return Err("an element is of another namespace than the root".to_owned());
    }
    match root.namespace.as_deref().filter(|_| root.name == "Document") {
        Some(NAMESPACE) => follow(root, &DOCUMENT, "Document")?,
        Some(NAMESPACE_03) => follow(&as_09(root)?, &DOCUMENT, "Document")?,
        _ => return Err(format!("the root is not a Document of {NAMESPACE} or {NAMESPACE_03}")),
    }
    sums(root)
}

/// A message of version .03 as one of .09: a bank is named by `BIC`, the day of execution stands by itself, and there is no UETR.
fn as_09(element: &Element) -> Result<Element, String> {
    let mut turned = element.clone();
    match element.name.as_str() {
        "BICFI" | "UETR" | "Dt" => return Err(format!("{} does not belong in version .03", element.name)),
        "BIC" => turned.name = "BICFI".to_owned(),
        "ReqdExctnDt" => {
            let day = Element { name: "Dt".to_owned(), text: element.text.clone(), ..Element::default() };
            (turned.text, turned.children) = (String::new(), vec![day]);
            return Ok(turned);
        }
        _ => {}
    }
    turned.children = element.children.iter().map(as_09).collect::<Result<_, _>>()?;
    Ok(turned)
}

fn follow(node: &Element, shape: &Shape, path: &str) -> Result<(), String> {
    let text = node.text.as_str();
    match shape {
        Shape::Any => Ok(()),
        Shape::Text(most) => match (1..=*most).contains(&text.chars().count()) {
            true => Ok(()),
            false => Err(format!("{path} has not 1 to {most} characters")),
        },
        Shape::Is(fits, expected) => match fits(text) {
            true => Ok(()),
            false => Err(format!("{path} is {text:?}, expected {expected}")),
        },
        Shape::One(parts) => {
            let [child] = &node.children[..] else {
                return Err(format!("{path} holds not exactly one element"));
            };
            let name = child.name.as_str();
            match parts.iter().find(|part| part.name == name) {
                Some(part) => follow(child, &part.shape, &format!("{path}/{name}")),
                None => Err(format!("{path}/{name} does not belong there")),
            }
        }
        Shape::All(parts) => {
            let mut children = node.children.iter().peekable();
            for part in *parts {
                let mut count = 0;
                while let Some(child) = children.next_if(|child| child.name == part.name) {
                    follow(child, &part.shape, &format!("{path}/{}", part.name))?;
                    count += 1;
                }
                if !(part.least..=part.most).contains(&count) {
                    return Err(format!("{path}/{} stands there {count} times", part.name));
                }
            }
            match children.next() {
                None => Ok(()),
                Some(child) => {
                    Err(format!("{path}/{} does not belong there, or not in this place", child.name))
                }
            }
        }
    }
}

/// Counts and sums agree with what is there (else a bank answers AM10, AM16 to AM20).
fn sums(root: &Element) -> Result<(), String> {
    let all = root.all();
    let named = |name: &'static str| all.iter().filter(move |element| element.name == name);
    let transfers = named("CdtTrfTxInf").count();
    for count in named("NbOfTxs") {
        if count.text != transfers.to_string() {
            return Err(format!("NbOfTxs is {:?}, there are {transfers}", count.text));
        }
    }
    let mut amounts = named("InstdAmt");
    if let (Some(amount), None) = (amounts.next(), amounts.next()) {
        for sum in named("CtrlSum") {
            if sum.text != amount.text {
                return Err(format!("CtrlSum is {:?}, the amount {:?}", sum.text, amount.text));
            }
        }
        if !amount.attribute("Ccy").is_some_and(is_currency) {
            return Err("InstdAmt has no currency".to_owned());
        }
    }
    Ok(())
}

fn is_decimal(text: &str) -> bool {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole) && digits(decimals)
}

fn is_amount(text: &str) -> bool {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    is_decimal(text) && decimals <= 5 && text.bytes().filter(u8::is_ascii_digit).count() <= 18
}

fn is_count(text: &str) -> bool {
    (1..=15).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_currency(text: &str) -> bool {
    text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn is_bic(text: &str) -> bool {
    let fits =
        |(at, byte): (usize, u8)| byte.is_ascii_uppercase() || byte.is_ascii_digit() && !(4..6).contains(&at);
    matches!(text.len(), 8 | 11) && text.bytes().enumerate().all(fits)
}

fn is_iban(text: &str) -> bool {
    let bytes = text.as_bytes();
    (5..=34).contains(&bytes.len())
        && bytes[..2].iter().all(u8::is_ascii_uppercase)
        && bytes[2..4].iter().all(u8::is_ascii_digit)
        && bytes[4..].iter().all(u8::is_ascii_alphanumeric)
}

fn is_uetr(text: &str) -> bool {
    let bytes = text.as_bytes();
    uuid::Uuid::parse_str(text).is_ok_and(|id| id.hyphenated().to_string() == text)
        && bytes[14] == b'4'
        && matches!(bytes[19], b'8' | b'9' | b'a' | b'b')
}

fn is_date(text: &str) -> bool {
    chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok()
}

fn is_date_time(text: &str) -> bool {
    chrono::DateTime::parse_from_rfc3339(text).is_ok()
        || chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").is_ok()
}

fn is_method(text: &str) -> bool {
    matches!(text, "TRF" | "CHK" | "TRA")
}

fn is_bearer(text: &str) -> bool {
    matches!(text, "DEBT" | "CRED" | "SHAR" | "SLEV")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = r#"<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"><CstmrCdtTrfInitn>
        <GrpHdr><MsgId>m</MsgId><CreDtTm>2026-01-15T09:30:00Z</CreDtTm><NbOfTxs>1</NbOfTxs><CtrlSum>150.00</CtrlSum>
         <InitgPty><Nm>Us</Nm></InitgPty></GrpHdr>
        <PmtInf><PmtInfId>m</PmtInfId><PmtMtd>TRF</PmtMtd><ReqdExctnDt><Dt>2026-01-15</Dt></ReqdExctnDt><Dbtr><Nm>Us</Nm></Dbtr>
         <DbtrAcct><Id><Othr><Id>123</Id></Othr></Id></DbtrAcct><DbtrAgt><FinInstnId><BICFI>AAAAZMLX</BICFI></FinInstnId></DbtrAgt>
         <CdtTrfTxInf><PmtId><EndToEndId>m</EndToEndId><UETR>11e594f4-8195-4c10-a301-5d0bf0447a22</UETR></PmtId>
          <Amt><InstdAmt Ccy="ZMW">150.00</InstdAmt></Amt><Cdtr><Nm>Payee</Nm></Cdtr>
          <CdtrAcct><Id><Othr><Id>987</Id></Othr></Id></CdtrAcct></CdtTrfTxInf></PmtInf></CstmrCdtTrfInitn></Document>"#;

    fn problem(message: &str) -> Option<String> {
        check(&Element::read(message.as_bytes()).expect("XML")).err()
    }

    #[test]
    fn a_message_as_the_schema_has_it_is_taken() {
        assert_eq!(problem(MESSAGE), None);
    }

    #[test]
    fn whatever_differs_from_the_schema_is_named() {
        for (right, wrong, named) in [
            ("pain.001.001.09", "pain.001.001.02", "the root"),
            ("pain.001.001.09", "pain.001.001.03", "does not belong in version .03"),
            ("<MsgId>m</MsgId>", "", "GrpHdr/MsgId stands there 0 times"),
            ("<MsgId>m</MsgId>", "<MsgId></MsgId>", "GrpHdr/MsgId has not 1 to 35"),
            ("<NbOfTxs>1</NbOfTxs>", "<NbOfTxs>2</NbOfTxs>", "NbOfTxs is"),
            ("<CtrlSum>150.00</CtrlSum>", "<CtrlSum>15.00</CtrlSum>", "CtrlSum is"),
            ("<PmtMtd>TRF</PmtMtd>", "<PmtMtd>CASH</PmtMtd>", "PmtMtd is"),
            ("<Dt>2026-01-15</Dt>", "<Dt>15.1.2026</Dt>", "ReqdExctnDt/Dt is"),
            ("AAAAZMLX", "AAAA1MLX", "BICFI is"),
            ("5d0bf0447a22</UETR>", "5D0BF0447A22</UETR>", "UETR is"),
            ("\"ZMW\">150.00", "\"ZMW\">150.000001", "InstdAmt is"),
            (" Ccy=\"ZMW\"", "", "no currency"),
            ("<Cdtr><Nm>Payee</Nm></Cdtr>", "<Cdtr><Name>Payee</Name></Cdtr>", "Cdtr/Name does not belong"),
            (
                "<Dbtr><Nm>Us</Nm></Dbtr>",
                "<ChrgBr>SHAR</ChrgBr><Dbtr><Nm>Us</Nm></Dbtr>",
                "PmtInf/Dbtr stands there 0 times",
            ),
        ] {
            assert!(MESSAGE.contains(right), "{right}");
            let found =
                problem(&MESSAGE.replacen(right, wrong, 1)).unwrap_or_else(|| panic!("{wrong} was taken"));
            assert!(found.contains(named), "{wrong}: {found}");
        }
    }
}
