//! A bank that takes pain.001.001.09 and .03 over HTTP and reports with pain.002.001.12.

mod structure;

use std::time::Duration;

use chrono::{NaiveDate, Utc};
use http::Method;

use crate::order::ReceivedPayment;
use crate::parse::Element;
use crate::rail::{Ask, RailModel, RailRequest, SimulatedReply};
use crate::script::Says;
use crate::tokens::IssuedTokens;

/// What stands in `config/rails/simulated/`.
pub(crate) const API_KEY: &str = "simulated-bank-api-key";
const PAYMENTS: &str = "/payments";

#[derive(Debug)]
pub(crate) struct Bank;

impl RailModel for Bank {
    fn read(&self, asked: &RailRequest, _: &IssuedTokens) -> Result<Ask, SimulatedReply> {
        match (&asked.method, asked.path.as_str()) {
            (&Method::POST, PAYMENTS) => {
                let order = order(asked)?;
                authorised(asked)?;
                Ok(Ask::Pay(Box::new(order)))
            }
            (&Method::GET, path) => {
                let id = path.strip_prefix(PAYMENTS).and_then(|rest| rest.strip_prefix('/'));
                let Some(id) = id else { return Err(SimulatedReply::empty(404)) };
                authorised(asked)?;
                Ok(Ask::Status(id.to_owned()))
            }
            _ => Err(SimulatedReply::empty(404)),
        }
    }

    /// A bank with a key of its own needs no session.
    fn session(&self, _: &str, _: Duration) -> SimulatedReply {
        SimulatedReply::empty(404)
    }

    fn accepted(&self, order: &ReceivedPayment, says: &Says) -> SimulatedReply {
        self.status(order, says)
    }

    fn duplicate(&self, order: &ReceivedPayment) -> SimulatedReply {
        report(order, Level::Transaction, "RJCT", Some(("Cd", "DU01")))
    }

    fn status(&self, order: &ReceivedPayment, says: &Says) -> SimulatedReply {
        match says {
            Says::Settled => report(order, Level::Transaction, "ACSC", None),
            Says::Pending(word) => report(order, Level::Transaction, word.as_deref().unwrap_or("ACSP"), None),
            Says::Word(word) => report(order, Level::Transaction, word, None),
            Says::Failed { variant, code } => failed(order, variant.as_deref(), code),
            Says::Missing => self.not_found(),
        }
    }

    fn not_found(&self) -> SimulatedReply {
        SimulatedReply::new(404, "text/plain", "no such payment")
    }

    fn busy(&self) -> SimulatedReply {
        SimulatedReply::empty(429)
    }

    fn refused(&self, status: u16, code: &str) -> SimulatedReply {
        SimulatedReply::new(status, "text/plain", code)
    }

    /// With a reason of its own; for the instruction; for the whole group. And those that are no verdict on the payment: another
    /// payment's in the same report, beside a duplicate that the group tells of, within a group that is paid.
    fn variants(&self) -> &'static [&'static str] {
        &["privately", "as-payment", "as-group", "of-another", "beside-duplicate", "contradicted"]
    }
}

fn authorised(asked: &RailRequest) -> Result<(), SimulatedReply> {
    match asked.bearer() == Some(API_KEY) {
        true => Ok(()),
        false => Err(SimulatedReply::new(401, "text/plain", "unknown client")),
    }
}

fn order(asked: &RailRequest) -> Result<ReceivedPayment, SimulatedReply> {
    let wrong = |what: String| SimulatedReply::new(400, "text/plain", what);
    if asked.header("content-type") != Some("application/xml") {
        return Err(wrong("Content-Type is not application/xml".to_owned()));
    }
    let root = Element::read(&asked.body).map_err(wrong)?;
    structure::check(&root).map_err(wrong)?;
    let initiation = root.child("CstmrCdtTrfInitn");
    let transfer =
        initiation.and_then(|it| it.child("PmtInf")).and_then(|payment| payment.child("CdtTrfTxInf"));
    let read = || {
        let (initiation, transfer) = (initiation?, transfer?);
        let text = |from: &Element, path: &[&str]| from.text_at(path).map(ToOwned::to_owned);
        let day = initiation.child("PmtInf")?.child("ReqdExctnDt")?;
        Some((
            ReceivedPayment {
                key: text(initiation, &["GrpHdr", "MsgId"])?,
                payee: text(transfer, &["CdtrAcct", "Id", "Othr", "Id"])?,
                amount: text(transfer, &["Amt", "InstdAmt"])?,
                currency: transfer.child("Amt")?.child("InstdAmt")?.attribute("Ccy")?.to_owned(),
                reference: text(transfer, &["PmtId", "EndToEndId"])?,
                note: text(transfer, &["RmtInf", "Ustrd"]).unwrap_or_default(),
                batch: text(initiation, &["PmtInf", "PmtInfId"])?,
                callback: None,
            },
            day.text_at(&["Dt"]).unwrap_or(&day.text).to_owned(),
        ))
    };
    let (order, day) = read().ok_or_else(|| wrong("no creditor account".to_owned()))?;
    // Midnight is another one where the payer is: a day early or late is not in the past yet.
    let yesterday = Utc::now().date_naive().pred_opt().unwrap_or_default();
    match NaiveDate::parse_from_str(&day, "%Y-%m-%d") {
        Ok(wanted) if wanted >= yesterday => Ok(order),
        _ => Err(wrong(format!("ReqdExctnDt is {day}, which is over"))),
    }
}

/// Where in the report the status stands.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Group,
    Payment,
    Transaction,
}

fn report(order: &ReceivedPayment, level: Level, status: &str, why: Option<(&str, &str)>) -> SimulatedReply {
    let why = why.map_or_else(String::new, |(kind, code)| reason(kind, code));
    let at = |wanted: Level, name: &str| match level == wanted {
        true => told(name, status, &why),
        false => String::new(),
    };
    let block = match level {
        Level::Group => String::new(),
        _ => block(order, &at(Level::Payment, "PmtInfSts"), &at(Level::Transaction, "TxSts")),
    };
    document(order, &at(Level::Group, "GrpSts"), &block)
}

/// A no in one of its forms; `variants` tells them.
fn failed(order: &ReceivedPayment, variant: Option<&str>, code: &str) -> SimulatedReply {
    let rejected = told("TxSts", "RJCT", &reason("Cd", code));
    let ours = |status: &str| block(order, "", status);
    match variant {
        None => report(order, Level::Transaction, "RJCT", Some(("Cd", code))),
        Some("privately") => report(order, Level::Transaction, "RJCT", Some(("Prtry", code))),
        Some("as-payment") => report(order, Level::Payment, "RJCT", Some(("Cd", code))),
        Some("of-another") => {
            let payment = |id: &str, status: &str, why: &str| {
                let (id, status) = (escaped(id), told("PmtInfSts", status, why));
                format!("<OrgnlPmtInfAndSts><OrgnlPmtInfId>{id}</OrgnlPmtInfId>{status}</OrgnlPmtInfAndSts>")
            };
            let another = payment("another-payment", "RJCT", &reason("Cd", code));
            document(order, "", &(another + &payment(&order.batch, "ACSP", "")))
        }
        Some("beside-duplicate") => {
            document(order, &told("GrpSts", "RJCT", &reason("Cd", "DUPL")), &ours(&rejected))
        }
        Some("contradicted") => document(order, &told("GrpSts", "ACSC", ""), &ours(&rejected)),
        Some(_) => report(order, Level::Group, "RJCT", Some(("Cd", code))),
    }
}

fn reason(kind: &str, code: &str) -> String {
    let code = escaped(code);
    format!(
        "<StsRsnInf><Rsn><{kind}>{code}</{kind}></Rsn><AddtlInf>said by the simulator</AddtlInf></StsRsnInf>"
    )
}

fn told(name: &str, status: &str, reason: &str) -> String {
    format!("<{name}>{}</{name}>{reason}", escaped(status))
}

/// What is said of one payment of the message.
fn block(order: &ReceivedPayment, of_payment: &str, of_transaction: &str) -> String {
    let (own, key) = (beginning(&order.key, 12), escaped(&order.key));
    let (reference, batch) = (escaped(&order.reference), escaped(&order.batch));
    format!(
        "<OrgnlPmtInfAndSts><OrgnlPmtInfId>{batch}</OrgnlPmtInfId>{of_payment}<TxInfAndSts><OrgnlInstrId>{key}</OrgnlInstrId><OrgnlEndToEndId>{reference}</OrgnlEndToEndId>{of_transaction}<AcctSvcrRef>BANK{own}</AcctSvcrRef></TxInfAndSts></OrgnlPmtInfAndSts>"
    )
}

fn document(order: &ReceivedPayment, of_group: &str, blocks: &str) -> SimulatedReply {
    let body = format!(
        r#"<?xml version="1.0" encoding="UTF-8"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.002.001.12"><CstmrPmtStsRpt><GrpHdr><MsgId>STS-{}</MsgId><CreDtTm>{}</CreDtTm></GrpHdr><OrgnlGrpInfAndSts><OrgnlMsgId>{}</OrgnlMsgId><OrgnlMsgNmId>pain.001</OrgnlMsgNmId>{of_group}</OrgnlGrpInfAndSts>{blocks}</CstmrPmtStsRpt></Document>"#,
        beginning(&order.key, 24),
        Utc::now().format("%Y-%m-%dT%H:%M:%SZ"),
        escaped(&order.key),
    );
    SimulatedReply::new(200, "application/xml", body)
}

/// So many characters of a text, as XML.
fn beginning(text: &str, chars: usize) -> String {
    escaped(&text.chars().take(chars).collect::<String>())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
