use super::*;

const OURS: &str = "11e594f481958c10e3015d0bf0447a22";
const UETR: &str = "11e594f4-8195-4c10-a301-5d0bf0447a22";

fn key() -> RailKey {
    RailKey { hex: OURS.repeat(2), hex32: OURS.to_owned(), uuid: UETR.to_owned() }
}

fn read(inside: &str) -> Result<Report, String> {
    let document = format!(
        r#"<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.002.001.12"><CstmrPmtStsRpt>{inside}</CstmrPmtStsRpt></Document>"#
    );
    Report::read(document.as_bytes(), &key()).expect("a report")
}

fn group(inside: &str) -> String {
    format!("<OrgnlGrpInfAndSts><OrgnlMsgId>{OURS}</OrgnlMsgId>{inside}</OrgnlGrpInfAndSts>")
}

fn block(id: &str, inside: &str) -> String {
    format!("<OrgnlPmtInfAndSts><OrgnlPmtInfId>{id}</OrgnlPmtInfId>{inside}</OrgnlPmtInfAndSts>")
}

fn transaction(id: &str, inside: &str) -> String {
    format!("<TxInfAndSts><OrgnlEndToEndId>{id}</OrgnlEndToEndId>{inside}</TxInfAndSts>")
}

const REJECTED: &str = "<TxSts>RJCT</TxSts><StsRsnInf><Rsn><Cd>AC04</Cd></Rsn></StsRsnInf>";
const SETTLED: &str = "<TxSts>ACSC</TxSts><AcctSvcrRef>BANK1</AcctSvcrRef>";

#[test]
fn a_report_on_our_payment_is_read_at_every_level() {
    let reason = |code: &str| format!("<StsRsnInf><Rsn><Cd>{code}</Cd></Rsn></StsRsnInf>");
    let ids = format!("<OrgnlInstrId>{OURS}</OrgnlInstrId><OrgnlUETR>{}</OrgnlUETR>", UETR.to_uppercase());
    let payment = block(
        OURS,
        &format!(
            "<PmtInfSts>RJCT</PmtInfSts>{}{}",
            reason("AM05"),
            transaction(OURS, &format!("{ids}{REJECTED}<AcctSvcrRef>BANK1</AcctSvcrRef>"))
        ),
    );
    let report =
        read(&(group(&format!("<GrpSts>PART</GrpSts>{}", reason("DUPL"))) + &payment)).expect("it is read");
    assert_eq!(report.statuses, ["RJCT", "RJCT", "PART"]);
    let reasons: Vec<_> = report.reasons.iter().map(Reason::value).collect();
    assert_eq!(reasons, ["AC04", "AM05", "DUPL"]);
    assert_eq!(report.bank_reference.as_deref(), Some("BANK1"));
}

/// In each of these another payment's rejection, or half of a report, could be taken for the verdict on ours.
#[test]
fn what_is_not_plainly_about_our_payment_is_not_read() {
    let ours = || block(OURS, &transaction(OURS, SETTLED));
    let another = || block("another", &transaction("another", REJECTED));
    let instruction = |id: &str| format!("<OrgnlInstrId>{id}</OrgnlInstrId>{REJECTED}");
    let uetr = "<OrgnlUETR>00000000-0000-4000-8000-000000000000</OrgnlUETR>";
    for (document, named) in [
        (group("") + &another() + &ours(), "OrgnlPmtInfId is not ours"),
        (group("") + &ours() + &another(), "OrgnlPmtInfId is not ours"),
        (group("") + &block(OURS, &transaction(OURS, REJECTED)) + &ours(), "OrgnlPmtInfAndSts stands"),
        (group("") + &block("another", REJECTED), "OrgnlPmtInfId is not ours"),
        (group("") + "<OrgnlPmtInfAndSts><PmtInfSts>RJCT</PmtInfSts></OrgnlPmtInfAndSts>", "is missing"),
        (group("").replace(OURS, "another") + &ours(), "OrgnlMsgId is not ours"),
        ("<OrgnlGrpInfAndSts><GrpSts>RJCT</GrpSts></OrgnlGrpInfAndSts>".to_owned(), "OrgnlMsgId is missing"),
        (group("<GrpSts>RJCT</GrpSts>") + &group(""), "OrgnlGrpInfAndSts stands"),
        (group("") + &block(OURS, &transaction("another", REJECTED)), "OrgnlEndToEndId is not ours"),
        (group("") + &block(OURS, &transaction(OURS, &instruction("another"))), "OrgnlInstrId is not ours"),
        (
            group("") + &block(OURS, &transaction(OURS, &(uetr.to_owned() + REJECTED))),
            "OrgnlUETR is not ours",
        ),
        (
            group("") + &block(OURS, &(transaction(OURS, REJECTED) + &transaction(OURS, SETTLED))),
            "TxInfAndSts stands",
        ),
        (group("<GrpSts>RJCT</GrpSts>") + &transaction(OURS, SETTLED), "TxInfAndSts stands"),
        (
            group(&transaction(OURS, SETTLED)) + &block(OURS, "<PmtInfSts>RJCT</PmtInfSts>"),
            "TxInfAndSts stands",
        ),
        (group("<GrpSts>RJCT</GrpSts><GrpSts>ACSC</GrpSts>"), "GrpSts stands"),
        (group("<GrpSts>RJCT</GrpSts>") + &block(OURS, "<GrpSts>ACSC</GrpSts>"), "GrpSts stands"),
        (group("") + &block(OURS, "<TxSts>RJCT</TxSts>"), "TxSts stands"),
        (group("<GrpSts>RJ<!-- -->CT</GrpSts>"), "GrpSts is not a plain text"),
        (group("<x:GrpSts xmlns:x='urn:x'>RJCT</x:GrpSts>"), "another namespace"),
    ] {
        let found = read(&document).expect_err(&document);
        assert!(found.contains(named), "{document}: {found}");
    }
}

#[test]
fn what_is_not_a_report_is_not_taken_for_one() {
    for body in ["", "no such payment", "<html><body>404</body></html>", "<Document><CstmrPmtSts", "<a>"] {
        assert!(Report::read(body.as_bytes(), &key()).is_none(), "{body}");
    }
}
