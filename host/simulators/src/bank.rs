//! A bank that takes pain.001.001.09 over HTTP and reports with pain.002.001.11.

mod structure;

use std::fmt::Write;
use std::time::Duration;

use chrono::Utc;
use http::Method;
use roxmltree::{Document, Node};

use crate::rail::{Ask, Asked, Order, Rail, Reply};
use crate::script::Says;
use crate::tokens::Tokens;

/// What stands in `config/rails/simulated/`.
pub(crate) const API_KEY: &str = "simulated-bank-api-key";
const PAYMENTS: &str = "/payments";

#[derive(Debug)]
pub(crate) struct Bank;

impl Rail for Bank {
    fn read(&self, asked: &Asked, _: &Tokens) -> Result<Ask, Reply> {
        match (&asked.method, asked.path.as_str()) {
            (&Method::POST, PAYMENTS) => {
                let order = order(asked)?;
                authorised(asked)?;
                Ok(Ask::Pay(Box::new(order)))
            }
            (&Method::GET, path) => {
                let id = path.strip_prefix(PAYMENTS).and_then(|rest| rest.strip_prefix('/'));
                let Some(id) = id else { return Err(Reply::empty(404)) };
                authorised(asked)?;
                Ok(Ask::Status(id.to_owned()))
            }
            _ => Err(Reply::empty(404)),
        }
    }

    /// A bank with a key of its own needs no session.
    fn session(&self, _: &str, _: Duration) -> Reply {
        Reply::empty(404)
    }

    fn accepted(&self, order: &Order, says: &Says) -> Reply {
        self.status(order, says)
    }

    fn duplicate(&self, order: &Order) -> Reply {
        report(order, Level::Transaction, "RJCT", Some(("Cd", "DU01")))
    }

    fn status(&self, order: &Order, says: &Says) -> Reply {
        match says {
            Says::Settled => report(order, Level::Transaction, "ACSC", None),
            Says::Pending(word) => report(order, Level::Transaction, word.as_deref().unwrap_or("ACSP"), None),
            Says::Word(word) => report(order, Level::Transaction, word, None),
            Says::Failed { variant, code } => match variant.as_deref() {
                None => report(order, Level::Transaction, "RJCT", Some(("Cd", code))),
                Some("privately") => report(order, Level::Transaction, "RJCT", Some(("Prtry", code))),
                Some("as-payment") => report(order, Level::Payment, "RJCT", Some(("Cd", code))),
                Some(_) => report(order, Level::Group, "RJCT", Some(("Cd", code))),
            },
            Says::Missing => self.not_found(),
        }
    }

    fn not_found(&self) -> Reply {
        Reply::new(404, "text/plain", "no such payment")
    }

    fn busy(&self) -> Reply {
        Reply::empty(429)
    }

    fn refused(&self, status: u16, code: &str) -> Reply {
        Reply::new(status, "text/plain", code)
    }

    /// With a reason of its own; for the instruction; for the whole group.
    fn variants(&self) -> &'static [&'static str] {
        &["privately", "as-payment", "as-group"]
    }
}

fn authorised(asked: &Asked) -> Result<(), Reply> {
    match asked.bearer() == Some(API_KEY) {
        true => Ok(()),
        false => Err(Reply::new(401, "text/plain", "unknown client")),
    }
}

fn order(asked: &Asked) -> Result<Order, Reply> {
    let wrong = |what: String| Reply::new(400, "text/plain", what);
    if asked.header("content-type") != Some("application/xml") {
        return Err(wrong("Content-Type is not application/xml".to_owned()));
    }
    let text = std::str::from_utf8(&asked.body).map_err(|error| wrong(error.to_string()))?;
    let document = Document::parse(text).map_err(|error| wrong(error.to_string()))?;
    structure::check(&document).map_err(wrong)?;
    let initiation = down(document.root_element(), "CstmrCdtTrfInitn");
    let payment = initiation.and_then(|initiation| down(initiation, "PmtInf"));
    let transfer = payment.and_then(|payment| down(payment, "CdtTrfTxInf"));
    let text = |from: Option<Node<'_, '_>>, path: &[&str]| -> Option<String> {
        path.iter().try_fold(from?, |node, name| down(node, name))?.text().map(ToOwned::to_owned)
    };
    let read = || {
        Some(Order {
            key: text(initiation, &["GrpHdr", "MsgId"])?,
            payee: text(transfer, &["CdtrAcct", "Id", "Othr", "Id"])?,
            amount: text(transfer, &["Amt", "InstdAmt"])?,
            currency: down(down(transfer?, "Amt")?, "InstdAmt")?.attribute("Ccy")?.to_owned(),
            reference: text(transfer, &["PmtId", "EndToEndId"])?,
            note: text(transfer, &["RmtInf", "Ustrd"]).unwrap_or_default(),
            callback: None,
        })
    };
    read().ok_or_else(|| wrong("no creditor account".to_owned()))
}

fn down<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.tag_name().name() == name)
}

/// Where in the report the status stands.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Group,
    Payment,
    Transaction,
}

fn report(order: &Order, level: Level, status: &str, reason: Option<(&str, &str)>) -> Reply {
    let key = &order.key;
    let reason = reason.map_or_else(String::new, |(kind, code)| {
        format!("<StsRsnInf><Rsn><{kind}>{code}</{kind}></Rsn><AddtlInf>said by the simulator</AddtlInf></StsRsnInf>")
    });
    let at = |wanted: Level, name: &str| match level == wanted {
        true => format!("<{name}>{status}</{name}>{reason}"),
        false => String::new(),
    };
    let mut body = String::new();
    let written = write!(
        body,
        r#"<?xml version="1.0" encoding="UTF-8"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.002.001.11"><CstmrPmtStsRpt><GrpHdr><MsgId>STS-{}</MsgId><CreDtTm>{}</CreDtTm></GrpHdr><OrgnlGrpInfAndSts><OrgnlMsgId>{key}</OrgnlMsgId><OrgnlMsgNmId>pain.001.001.09</OrgnlMsgNmId>{}</OrgnlGrpInfAndSts>"#,
        &key[..key.len().min(24)],
        Utc::now().format("%Y-%m-%dT%H:%M:%SZ"),
        at(Level::Group, "GrpSts"),
    );
    debug_assert!(written.is_ok(), "a text takes what is written to it");
    if level != Level::Group {
        body += &format!(
            "<OrgnlPmtInfAndSts><OrgnlPmtInfId>{key}</OrgnlPmtInfId>{}<TxInfAndSts><OrgnlInstrId>{key}</OrgnlInstrId><OrgnlEndToEndId>{}</OrgnlEndToEndId>{}<AcctSvcrRef>BANK{}</AcctSvcrRef></TxInfAndSts></OrgnlPmtInfAndSts>",
            at(Level::Payment, "PmtInfSts"),
            order.reference,
            at(Level::Transaction, "TxSts"),
            &key[..key.len().min(12)],
        );
    }
    body += "</CstmrPmtStsRpt></Document>";
    Reply::new(200, "application/xml", body)
}
