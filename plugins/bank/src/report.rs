//! pain.002, as far as it decides anything, by the names of the rail file.

use rail_sdk::Facts;
use rail_sdk::prelude::*;
use roxmltree::{Document, Node};

pub(crate) fn facts(body: &[u8]) -> Result<Facts, String> {
    let text = str::from_utf8(body).map_err(|error| error.to_string())?;
    let document = Document::parse(text).map_err(|error| error.to_string())?;
    let mut facts = Facts::new();
    for node in document.descendants().filter(Node::is_element) {
        let name = match (node.tag_name().name(), parent(node)) {
            ("TxSts", Some("TxInfAndSts")) => "tx_status",
            ("PmtInfSts", Some("OrgnlPmtInfAndSts")) => "payment_status",
            ("GrpSts", Some("OrgnlGrpInfAndSts")) => "group_status",
            ("Cd", Some("Rsn")) => "reason",
            ("Prtry", Some("Rsn")) => "proprietary",
            _ => continue,
        };
        let value = node.text().map(str::trim).filter(|text| !text.is_empty());
        facts.push((name.to_owned(), value.ok_or_else(|| format!("{name} is empty"))?.to_owned()));
    }
    match facts.is_empty() {
        true => Err("it is not a report on a payment".to_owned()),
        false => Ok(facts),
    }
}

fn parent<'d>(node: Node<'d, '_>) -> Option<&'d str> {
    node.parent_element().map(|parent| parent.tag_name().name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_reasons_of_all_levels_are_read() {
        let report = "<Document><R><OrgnlGrpInfAndSts><GrpSts>ACTC</GrpSts></OrgnlGrpInfAndSts><OrgnlPmtInfAndSts>\
            <TxInfAndSts><TxSts> RJCT </TxSts><StsRsnInf><Rsn><Cd>AC04</Cd></Rsn></StsRsnInf></TxInfAndSts>\
            </OrgnlPmtInfAndSts></R></Document>";
        let read = facts(report.as_bytes()).expect("a report");
        let names: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(names, [("group_status", "ACTC"), ("tx_status", "RJCT"), ("reason", "AC04")]);
        for none in ["<a/>", "no", "", "<R><TxInfAndSts><TxSts/></TxInfAndSts></R>"] {
            assert!(facts(none.as_bytes()).is_err(), "{none}");
        }
    }
}
