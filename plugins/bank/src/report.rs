//! pain.002, as far as it decides anything. Every status in it may be left out, and a report may cover more than one payment.
//! What is not plainly and only about our payment is not read: its verdict could be another payment's.

use rail_sdk::RailKey;
use roxmltree::{Document, Node};

/// A status of the payment, and where it stands.
const STATUSES: [&str; 3] = ["TxSts", "PmtInfSts", "GrpSts"];

/// A report on our payment and on nothing else.
#[derive(Debug)]
pub(crate) struct Report {
    /// The most specific first: of the transaction, of the instruction, of the group.
    pub statuses: Vec<String>,
    /// Of all levels, the most specific first: a duplicate may be told at another level than the status.
    pub reasons: Vec<Reason>,
    pub bank_reference: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reason {
    Code(String),
    /// The bank's own.
    Proprietary(String),
}

impl Reason {
    pub(crate) fn value(&self) -> &str {
        match self {
            Self::Code(value) | Self::Proprietary(value) => value,
        }
    }
}

impl Report {
    /// None: it is not a report. An error says why a report is not plainly about the payment with this key.
    pub(crate) fn read(body: &[u8], key: &RailKey) -> Option<Result<Self, String>> {
        let document = Document::parse(std::str::from_utf8(body).ok()?).ok()?;
        let root = document.root_element();
        is_there(root, "CstmrPmtStsRpt").then(|| Self::of(root, key))
    }

    fn of(root: Node<'_, '_>, key: &RailKey) -> Result<Self, String> {
        ours(root, key)?;
        let report = must(root, "CstmrPmtStsRpt")?;
        let group = must(report, "OrgnlGrpInfAndSts")?;
        let payment = may(report, "OrgnlPmtInfAndSts")?;
        let transaction = payment.map(|payment| may(payment, "TxInfAndSts")).transpose()?.flatten();
        must(group, "OrgnlMsgId")?;
        payment.map(|payment| must(payment, "OrgnlPmtInfId")).transpose()?;
        let levels = [transaction, payment, Some(group)];
        once(root, "OrgnlPmtInfAndSts", payment)?;
        once(root, "TxInfAndSts", transaction)?;
        let (mut statuses, mut reasons) = (Vec::new(), Vec::new());
        for (level, name) in levels.into_iter().zip(STATUSES) {
            let found = level.map(|level| may(level, name)).transpose()?.flatten();
            once(root, name, found)?;
            statuses.extend(found.map(text).transpose()?);
            reasons.extend(level.map(of_level).transpose()?.unwrap_or_default());
        }
        // A reference that cannot be read spoils no verdict.
        let reference = transaction.and_then(|transaction| may(transaction, "AcctSvcrRef").ok().flatten());
        Ok(Self { statuses, reasons, bank_reference: reference.and_then(|node| text(node).ok()) })
    }
}

/// Each original identification in the document, wherever it stands, names our payment.
fn ours(root: Node<'_, '_>, key: &RailKey) -> Result<(), String> {
    for node in root.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        let fits = match name {
            "OrgnlMsgId" | "OrgnlPmtInfId" | "OrgnlInstrId" | "OrgnlEndToEndId" => text(node)? == key.hex32,
            "OrgnlUETR" => text(node)?.eq_ignore_ascii_case(&key.uuid),
            _ => true,
        };
        if !fits {
            return Err(format!("{name} is not ours"));
        }
    }
    Ok(())
}

fn of_level(level: Node<'_, '_>) -> Result<Vec<Reason>, String> {
    let mut reasons = Vec::new();
    let information = elements(level).filter(|child| child.tag_name().name() == "StsRsnInf");
    for reason in information.flat_map(elements).filter(|child| child.tag_name().name() == "Rsn") {
        for said in elements(reason) {
            reasons.push(match said.tag_name().name() {
                "Cd" => Reason::Code(text(said)?),
                "Prtry" => Reason::Proprietary(text(said)?),
                other => return Err(format!("Rsn/{other} is not a reason")),
            });
        }
    }
    Ok(reasons)
}

fn elements<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(Node::is_element)
}

fn is_there(node: Node<'_, '_>, name: &str) -> bool {
    elements(node).any(|child| child.tag_name().name() == name)
}

/// Whatever its prefix: banks wrap the message in prefixes of their own. What stands there twice is not read.
fn may<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Result<Option<Node<'a, 'i>>, String> {
    let mut named = elements(node).filter(|child| child.tag_name().name() == name);
    let (found, None) = (named.next(), named.next()) else {
        return Err(format!("{name} stands there more than once"));
    };
    match found.is_some_and(|found| found.tag_name().namespace() != node.tag_name().namespace()) {
        true => Err(format!("{name} is of another namespace")),
        false => Ok(found),
    }
}

fn must<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Result<Node<'a, 'i>, String> {
    may(node, name)?.ok_or_else(|| format!("{name} is missing"))
}

/// The document has this element only where it was found.
fn once(root: Node<'_, '_>, name: &str, found: Option<Node<'_, '_>>) -> Result<(), String> {
    let elsewhere = |node: &Node<'_, '_>| node.tag_name().name() == name && Some(*node) != found;
    match root.descendants().any(|node| elsewhere(&node)) {
        true => Err(format!("{name} stands where it does not belong")),
        false => Ok(()),
    }
}

/// All of it in one piece: what a comment divides, others would read differently.
fn text(node: Node<'_, '_>) -> Result<String, String> {
    let name = node.tag_name().name();
    let mut children = node.children();
    let (only, None) = (children.next(), children.next()) else {
        return Err(format!("{name} is not a plain text"));
    };
    let text = only.filter(Node::is_text).and_then(|only| only.text()).map(str::trim).unwrap_or_default();
    match text.is_empty() {
        true => Err(format!("{name} is empty")),
        false => Ok(text.to_owned()),
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
