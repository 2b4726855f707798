use super::*;

const OURS: &str = "11e594f481958c10e3015d0bf0447a22";

/// What a bank means that settles by ACSC and ACCC, by the statuses and reasons of transaction, instruction and group.
fn said(statuses: &str, reasons: &[&str]) -> String {
    let reason = |text: &&str| match text.strip_prefix("own:") {
        Some(own) => Reason::Proprietary(own.to_owned()),
        None => Reason::Code((*text).to_owned()),
    };
    let report = Report {
        statuses: statuses.split_whitespace().map(ToOwned::to_owned).collect(),
        reasons: reasons.iter().map(reason).collect(),
        bank_reference: None,
    };
    let key = RailKey { hex: OURS.repeat(2), hex32: OURS.to_owned(), uuid: String::new() };
    let (word, code) = match reported(Ok(report), "", &key, "ACSC ACCC") {
        Answer::Settled(said) => ("settled", said.code),
        Answer::Pending(said) => ("pending", said.code),
        Answer::Declined(said) => ("declined", said.code),
        Answer::Unclear(said) => ("unclear", said.code),
        other => panic!("{other:?}"),
    };
    code.map_or_else(|| word.to_owned(), |code| format!("{word} {} {}", code.field, code.value))
}

#[test]
fn the_most_specific_status_counts_where_the_others_leave_room_for_it() {
    for (statuses, expected) in [
        ("ACSC", "settled status ACSC"),
        ("ACCC ACTC PART", "settled status ACCC"),
        ("ACSP ACSC", "pending status ACSP"),
        ("RJCT PART", "declined status RJCT"),
        ("RJCT RJCT ACTC", "declined status RJCT"),
        ("CANC RJCT", "declined status CANC"),
        ("BLCK", "pending status BLCK"),
    ] {
        assert_eq!(said(statuses, &[]), expected, "{statuses}");
    }
}

#[test]
fn statuses_that_contradict_each_other_are_unclear() {
    for statuses in
        ["RJCT ACSC", "RJCT ACTC ACSP", "RJCT ACCP", "ACSC RJCT", "ACCC PART RJCT", "ACSP RJCT", "CANC ACCC"]
    {
        assert_eq!(said(statuses, &["AC04"]), "unclear", "{statuses}");
    }
}

#[test]
fn a_reason_that_leaves_the_payment_open_goes_before_a_final_one_of_any_level() {
    for code in DUPLICATE {
        for reasons in [vec!["AC04", code], vec![code, "AC04"], vec!["FF01", "own:X-17", code]] {
            assert_eq!(said("RJCT RJCT", &reasons), format!("pending reason {code}"), "{reasons:?}");
        }
        assert_eq!(said("CANC", &[code]), format!("pending reason {code}"));
        assert_eq!(said("RJCT", &["AC04", &format!("own:{code}")]), format!("pending proprietary {code}"));
        assert_eq!(said("ACSC", &[code]), "unclear status ACSC", "paid, and a duplicate of something");
    }
    for code in UNCERTAIN {
        assert_eq!(said("RJCT", &["AC04", code]), format!("unclear reason {code}"));
    }
}

#[test]
fn a_reason_of_the_banks_own_is_judged_before_a_listed_one() {
    assert_eq!(said("RJCT", &["AC04", "own:X-17"]), "declined proprietary X-17");
    assert_eq!(said("RJCT", &["AC04", "AM04"]), "declined reason AC04");
}
