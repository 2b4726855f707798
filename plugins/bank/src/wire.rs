//! The message to the bank, as types: what we fill of pain.001.001.09.

use quick_xml::se::Serializer;
use rail_sdk::{Instruction, settings};
use serde::Serialize;
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

use crate::{ACCOUNT_CHARS_MAX, NAME_CHARS_MAX, wrong_text};

const PAIN_001: &str = "urn:iso:std:iso:20022:tech:xsd:pain.001.001.09";

/// The message that asks for a payment. Elements stand in the order of the schema.
pub(crate) fn initiation(instruction: &Instruction) -> Result<String, String> {
    let now = OffsetDateTime::now_utc().to_offset(offset(&settings::required("utc_offset"))?);
    let document = Document {
        xmlns: PAIN_001,
        initiation: Initiation {
            header: Header::of(instruction, now)?,
            payment: Payment::of(instruction, now)?,
        },
    };
    let mut message = String::from(r#"<?xml version="1.0" encoding="UTF-8"?>"#);
    document.serialize(Serializer::new(&mut message)).map_err(|error| error.to_string())?;
    Ok(message)
}

/// `+02:00`. The day of execution is the bank's, not that of Greenwich.
fn offset(text: &str) -> Result<UtcOffset, String> {
    let read = || {
        let (sign, time) = text.split_at_checked(1)?;
        let (hours, minutes) = time.split_once(':')?;
        let (hours, minutes): (i8, i8) = (hours.parse().ok()?, minutes.parse().ok()?);
        let sign = if sign == "+" {
            1
        } else if sign == "-" {
            -1
        } else {
            return None;
        };
        UtcOffset::from_hms(sign * hours, sign * minutes, 0).ok()
    };
    read().ok_or_else(|| format!("settings.utc_offset is {text:?}, expected such as +02:00"))
}

#[derive(Debug, Serialize)]
struct Document {
    #[serde(rename = "@xmlns")]
    xmlns: &'static str,
    #[serde(rename = "CstmrCdtTrfInitn")]
    initiation: Initiation,
}

#[derive(Debug, Serialize)]
struct Initiation {
    #[serde(rename = "GrpHdr")]
    header: Header,
    #[serde(rename = "PmtInf")]
    payment: Payment,
}

#[derive(Debug, Serialize)]
struct Header {
    #[serde(rename = "MsgId")]
    id: String,
    #[serde(rename = "CreDtTm")]
    created: String,
    #[serde(rename = "NbOfTxs")]
    count: u8,
    #[serde(rename = "CtrlSum")]
    sum: String,
    #[serde(rename = "InitgPty")]
    initiator: Party,
}

impl Header {
    fn of(instruction: &Instruction, now: OffsetDateTime) -> Result<Self, String> {
        let second = now.replace_nanosecond(0).map_err(|error| error.to_string())?;
        Ok(Self {
            id: instruction.key.hex32.clone(),
            created: second.format(&Rfc3339).map_err(|error| error.to_string())?,
            count: 1,
            sum: instruction.amount.amount.clone(),
            initiator: own_name()?,
        })
    }
}

#[derive(Debug, Serialize)]
struct Payment {
    #[serde(rename = "PmtInfId")]
    id: String,
    #[serde(rename = "PmtMtd")]
    method: &'static str,
    #[serde(rename = "NbOfTxs")]
    count: u8,
    #[serde(rename = "CtrlSum")]
    sum: String,
    #[serde(rename = "ReqdExctnDt")]
    execution: ExecutionDate,
    #[serde(rename = "Dbtr")]
    debtor: Party,
    #[serde(rename = "DbtrAcct")]
    debtor_account: OwnAccount,
    #[serde(rename = "DbtrAgt")]
    debtor_agent: Agent,
    #[serde(rename = "ChrgBr", skip_serializing_if = "Option::is_none")]
    charges: Option<String>,
    #[serde(rename = "CdtTrfTxInf")]
    transfer: Transfer,
}

impl Payment {
    fn of(instruction: &Instruction, now: OffsetDateTime) -> Result<Self, String> {
        Ok(Self {
            id: instruction.key.hex32.clone(),
            method: "TRF",
            count: 1,
            sum: instruction.amount.amount.clone(),
            execution: ExecutionDate { date: now.date().to_string() },
            debtor: own_name()?,
            debtor_account: OwnAccount {
                id: Account::read(&settings::required("debtor_account"))?.id,
                currency: settings::required("currency"),
            },
            debtor_agent: Agent::read(Some(&settings::required("debtor_bic")), None)?,
            charges: settings::get("charges").map(bearer).transpose()?,
            transfer: Transfer::of(instruction)?,
        })
    }
}

/// Of the charges, in the schema's four words.
fn bearer(text: String) -> Result<String, String> {
    match text.as_str() {
        "DEBT" | "CRED" | "SHAR" | "SLEV" => Ok(text),
        _ => Err(format!("settings.charges is {text:?}, expected DEBT, CRED, SHAR or SLEV")),
    }
}

/// Our own name, held to what is asked of a payee's.
fn own_name() -> Result<Party, String> {
    let name = settings::required("debtor_name");
    match wrong_text(&name, 1, NAME_CHARS_MAX) {
        None => Ok(Party::new(name)),
        Some(problem) => Err(format!("settings.debtor_name {problem}")),
    }
}

#[derive(Debug, Serialize)]
struct ExecutionDate {
    #[serde(rename = "Dt")]
    date: String,
}

#[derive(Debug, Serialize)]
struct Transfer {
    #[serde(rename = "PmtId")]
    ids: PaymentIds,
    #[serde(rename = "Amt")]
    amount: Amount,
    #[serde(rename = "CdtrAgt")]
    agent: Agent,
    #[serde(rename = "Cdtr")]
    payee: Party,
    #[serde(rename = "CdtrAcct")]
    account: Account,
    #[serde(rename = "RmtInf", skip_serializing_if = "Option::is_none")]
    remittance: Option<Remittance>,
}

impl Transfer {
    fn of(instruction: &Instruction) -> Result<Self, String> {
        let part = |name| instruction.destination.field(name);
        Ok(Self {
            ids: PaymentIds {
                instruction: instruction.key.hex32.clone(),
                end_to_end: instruction.key.hex32.clone(),
                uetr: instruction.key.uuid.clone(),
            },
            amount: Amount {
                instructed: Instructed {
                    currency: instruction.amount.currency.clone(),
                    amount: instruction.amount.amount.clone(),
                },
            },
            agent: Agent::read(part("bic"), part("bank_code"))?,
            payee: Party::new(part("name").unwrap_or_default().to_owned()),
            account: Account::read(instruction.destination.part("account").unwrap_or_default())?,
            remittance: instruction
                .narrative
                .as_deref()
                .filter(|note| !note.is_empty())
                .map(|note| Remittance { text: note.to_owned() }),
        })
    }
}

#[derive(Debug, Serialize)]
struct PaymentIds {
    #[serde(rename = "InstrId")]
    instruction: String,
    #[serde(rename = "EndToEndId")]
    end_to_end: String,
    #[serde(rename = "UETR")]
    uetr: String,
}

#[derive(Debug, Serialize)]
struct Amount {
    #[serde(rename = "InstdAmt")]
    instructed: Instructed,
}

#[derive(Debug, Serialize)]
struct Instructed {
    #[serde(rename = "@Ccy")]
    currency: String,
    #[serde(rename = "$text")]
    amount: String,
}

#[derive(Debug, Serialize)]
struct Remittance {
    #[serde(rename = "Ustrd")]
    text: String,
}

#[derive(Debug, Serialize)]
struct Party {
    #[serde(rename = "Nm")]
    name: String,
}

impl Party {
    fn new(name: String) -> Self {
        Self { name }
    }
}

#[derive(Debug, Serialize)]
struct OwnAccount {
    #[serde(rename = "Id")]
    id: AccountId,
    #[serde(rename = "Ccy")]
    currency: String,
}

/// An account, by the number that its bank uses.
#[derive(Debug, Serialize)]
pub(crate) struct Account {
    #[serde(rename = "Id")]
    id: AccountId,
}

#[derive(Debug, Serialize)]
struct AccountId {
    #[serde(rename = "Othr")]
    other: Other,
}

#[derive(Debug, Serialize)]
struct Other {
    #[serde(rename = "Id")]
    id: String,
}

impl Account {
    pub(crate) fn read(number: &str) -> Result<Self, String> {
        let fits = (1..=ACCOUNT_CHARS_MAX).contains(&number.len())
            && number.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match fits {
            true => Ok(Self { id: AccountId { other: Other { id: number.to_owned() } } }),
            false => Err(format!("must be 1 to {ACCOUNT_CHARS_MAX} letters and digits")),
        }
    }
}

/// A bank, by its BIC or by its number in the national clearing.
#[derive(Debug, Serialize)]
pub(crate) struct Agent {
    #[serde(rename = "FinInstnId")]
    id: AgentId,
}

/// One of the two.
#[derive(Debug, Serialize)]
struct AgentId {
    #[serde(rename = "BICFI", skip_serializing_if = "Option::is_none")]
    bic: Option<String>,
    #[serde(rename = "ClrSysMmbId", skip_serializing_if = "Option::is_none")]
    member: Option<Member>,
}

#[derive(Debug, Serialize)]
struct Member {
    #[serde(rename = "MmbId")]
    id: String,
}

impl Agent {
    pub(crate) fn read(bic: Option<&str>, bank_code: Option<&str>) -> Result<Self, String> {
        let id = match (bic, bank_code) {
            (Some(bic), _) if is_bic(bic) => AgentId { bic: Some(bic.to_owned()), member: None },
            (Some(_), _) => return Err("must be a BIC: 8 or 11 capital letters and digits".to_owned()),
            (None, Some(code))
                if (1..=35).contains(&code.len())
                    && code.bytes().all(|byte| byte.is_ascii_alphanumeric()) =>
            {
                AgentId { bic: None, member: Some(Member { id: code.to_owned() }) }
            }
            (None, Some(_)) => return Err("must be 1 to 35 letters and digits".to_owned()),
            (None, None) => return Err("must be given, or destination.bic instead".to_owned()),
        };
        Ok(Self { id })
    }
}

/// `[A-Z0-9]{4}[A-Z]{2}[A-Z0-9]{2}([A-Z0-9]{3})?`
fn is_bic(text: &str) -> bool {
    matches!(text.len(), 8 | 11)
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| byte.is_ascii_uppercase() || byte.is_ascii_digit() && !(4..6).contains(&at))
}
