//! What the rails' documents say of their codes, against our tables: written down twice on purpose. And what comes of a first reply
//! with a code, against its row.

use std::collections::BTreeSet;

use form::{Code, Meaning, Operation, Row};
use harness::rail_run::{payment, table};
use rail_simulators::Name;
use verdict::decision::Class;

use crate::held::play;
use crate::straight::Straight;

fn means(rail: Name, operation: Operation, http: u16, field: &str, code: &str) -> Option<Meaning> {
    table(rail).meaning(operation, Some(http), &Code::new(field, code))
}

#[test]
fn what_the_rails_leave_open_no_table_closes() {
    for (rail, operation, http, field, code) in [
        (Name::Mtn, Operation::Disburse, 500, "code", "INTERNAL_PROCESSING_ERROR"),
        (Name::Mtn, Operation::Disburse, 503, "code", "SERVICE_UNAVAILABLE"),
        (Name::Mtn, Operation::QueryStatus, 200, "reason", "TRANSACTION_NOT_FOUND"),
        (Name::Airtel, Operation::Disburse, 200, "response_code", "DP00900001000"),
        (Name::Airtel, Operation::Disburse, 200, "response_code", "DP00900001014"),
        (Name::Airtel, Operation::QueryStatus, 200, "response_code", "DP00900001014"),
        (Name::Airtel, Operation::Disburse, 200, "response_code", "DP00900001015"),
        (Name::Airtel, Operation::Disburse, 400, "status_code", "ROUTER117"),
        (Name::Airtel, Operation::Disburse, 200, "result_code", "ESB000001"),
        (Name::Airtel, Operation::Disburse, 200, "result_code", "ESB000004"),
        (Name::Airtel, Operation::Disburse, 200, "result_code", "ESB000008"),
        (Name::Mtn, Operation::Disburse, 500, "code", "SERVICE_UNAVAILABLE"),
        (Name::Mtn, Operation::Disburse, 500, "code", "EXPIRED"),
        (Name::Bank, Operation::QueryStatus, 200, "reason", "AG09"),
        (Name::Bank, Operation::QueryStatus, 200, "reason", "NOAS"),
    ] {
        assert_eq!(means(rail, operation, http, field, code), Some(Meaning::Unknown), "{rail} {code}");
    }
}

/// Too early, or never arrived: what follows from that the payment's history says.
#[test]
fn a_key_that_a_rail_does_not_know_is_neither_paid_nor_refused() {
    for (rail, http, field, code) in [
        (Name::Mtn, 404, "code", "RESOURCE_NOT_FOUND"),
        (Name::Mtn, 404, "body", "blank"),
        (Name::Airtel, 200, "response_code", "DP00900001015"),
        (Name::Airtel, 200, "response_code", "ESB000045"),
        (Name::Bank, 404, "text", "no such payment"),
    ] {
        let found = means(rail, Operation::QueryStatus, http, field, code);
        assert_eq!(found, Some(Meaning::NotFound), "{rail} {code}");
    }
}

#[test]
fn the_classes_are_those_of_the_documents() {
    use Meaning::{Hold, Retryable, Stop, Terminal, TerminalReview};
    for (rail, field, class, codes) in [
        (
            Name::Mtn,
            "reason",
            Terminal,
            "PAYEE_NOT_FOUND PAYER_NOT_FOUND PAYEE_NOT_ALLOWED_TO_RECEIVE APPROVAL_REJECTED EXPIRED PAYMENT_NOT_APPROVED TRANSACTION_CANCELED",
        ),
        (
            Name::Mtn,
            "reason",
            TerminalReview,
            "INTERNAL_PROCESSING_ERROR COULD_NOT_PERFORM_TRANSACTION LOW_BALANCE_OR_PAYEE_LIMIT_REACHED_OR_NOT_ALLOWED",
        ),
        (
            Name::Mtn,
            "reason",
            Hold,
            "NOT_ENOUGH_FUNDS PAYER_LIMIT_REACHED NOT_ALLOWED INVALID_CURRENCY SERVICE_UNAVAILABLE",
        ),
        (Name::Mtn, "reason", Stop, "SENDER_ACCOUNT_NOT_ACTIVE"),
        (Name::Airtel, "response_code", Terminal, "DP00900001004 DP00900001009 DP00900001012"),
        (Name::Airtel, "response_code", TerminalReview, "DP00900001005 DP00900001013"),
        (Name::Airtel, "response_code", Hold, "DP00900001003 DP00900001007 DP00900001016 DP00900001018"),
        (Name::Airtel, "response_code", Stop, "DP00900001010 DP00900001019"),
        (Name::Bank, "reason", Terminal, "AC01 AC04 AC06 AG01 AM01 BE23 RC01 RR04 FF01 DT01 AM07"),
        (Name::Bank, "reason", TerminalReview, "MS02 MS03 NARR SL01 AGNT DS02 CUST AB05 AB09 TA01"),
        (Name::Bank, "reason", Retryable, "AB08 AG11"),
        (
            Name::Bank,
            "reason",
            Hold,
            "AM04 AG07 AM02 AM21 DS0A DS24 AM10 AM18 ED05 ED06 FF10 AB07 AG10 TM01 DT05 DT03",
        ),
        (Name::Bank, "reason", Stop, "AC02 AC05 AG08 DS0D DS14 DS19 TKXP"),
    ] {
        for code in codes.split_whitespace() {
            assert_eq!(means(rail, Operation::QueryStatus, 200, field, code), Some(class), "{rail} {code}");
        }
    }
}

/// Nobody pays again what a person could find to be paid, or asks fifteen times about what MTN has refused.
#[test]
fn what_mtns_door_refuses_with_a_reason_is_judged_by_the_table() {
    for (class, codes) in [
        (Meaning::TerminalReview, "PAYEE_NOT_FOUND PAYER_NOT_FOUND PAYEE_NOT_ALLOWED_TO_RECEIVE"),
        (Meaning::Hold, "NOT_ENOUGH_FUNDS PAYER_LIMIT_REACHED NOT_ALLOWED INVALID_CURRENCY"),
        (Meaning::Pending, "RESOURCE_ALREADY_EXIST"),
    ] {
        for code in codes.split_whitespace() {
            assert_eq!(means(Name::Mtn, Operation::Disburse, 500, "code", code), Some(class), "{code}");
        }
    }
}

/// A PIN that is tried again and again locks the wallet; a closed account of ours opens for no payment.
#[test]
fn what_gets_worse_with_every_try_stops_the_rail() {
    for code in ["ROUTER114", "ROUTER115", "ROUTER116"] {
        let found = means(Name::Airtel, Operation::Disburse, 400, "status_code", code);
        assert_eq!(found, Some(Meaning::Stop), "{code}");
    }
    for rail in Name::ALL {
        let stops = table(rail).rows.iter().any(|row| row.class == Meaning::Stop);
        assert!(stops, "{rail} has codes that stop it");
    }
}

/// How the simulator is made to say a code in its first reply, and whether that reply is a 2xx. None: nothing makes it.
fn said_at_once(rail: Name, row: &Row) -> Option<(String, bool)> {
    let Row { http, field, class, .. } = row;
    // A row for any other code gets one.
    let code = if row.code == "*" { "ODD" } else { row.code.as_str() };
    // What is left open is paid, so that it ends.
    let open = matches!(class, Meaning::Pending | Meaning::Received | Meaning::Unknown);
    let then = if open { ", after 300ms settled" } else { "" };
    let refused = |status: u16| match open {
        true => format!("pay refuse-after {status} {code}"),
        false => format!("pay refuse {status} {code}, accept"),
    };
    let empty = |status: u16| match open {
        true => (format!("pay empty-after {status}"), status < 300),
        false => (format!("pay empty-before {status}, accept"), status < 300),
    };
    Some(match (rail, field.as_str()) {
        (_, "http") => empty(code.parse().expect("a status")),
        (Name::Mtn, _) => (refused(http.expect("MTN's codes have a status")), false),
        (Name::Airtel, "response_code") if *class == Meaning::Success => (String::new(), true),
        (Name::Airtel, "response_code") => (refused(200), true),
        (Name::Airtel, "result_code") => (format!("then failed-by-result {code}{then}"), true),
        (Name::Airtel, "status_code") => (refused(400), false),
        // A status comes with a code, and that decides.
        (Name::Airtel, _) => return None,
        (Name::Bank, "reason") => (format!("then failed {code}{then}"), true),
        (Name::Bank, "body") => empty(http.expect("a blank body has a status")),
        // The simulator gives the status of the transaction, and reasons of the code list.
        (Name::Bank, "payment_status" | "group_status" | "proprietary") => return None,
        // The ledger takes only `settled` for paid.
        (Name::Bank, _) if *class == Meaning::Success => {
            (format!("then says {code}, after 1m settled"), true)
        }
        (Name::Bank, _) => (format!("then says {code}{then}"), true),
    })
}

/// How a payment ends whose first reply has a code of this class, and what is written of that reply. A no in a 2xx is final.
fn recorded(class: Meaning, taken: bool) -> (&'static str, Option<&'static str>) {
    match class {
        Meaning::Success => ("DISPATCHED yes", None),
        Meaning::Pending | Meaning::Received => ("DISPATCHED yes", Some("RAIL_PENDING")),
        // A rail does not say of a payment that it is sent that it does not know it: no table has that.
        Meaning::Unknown | Meaning::NotFound => ("DISPATCHED yes", Some("OUTCOME_UNKNOWN")),
        Meaning::Retryable if !taken => ("DISPATCHED yes", Some("RAIL_DECLINED")),
        Meaning::Hold if !taken => ("DISPATCHED yes", Some("ON_HOLD")),
        // Nothing is paid any more: it is judged without a host.
        Meaning::Stop if !taken => ("", Some("STOPPED")),
        Meaning::Retryable | Meaning::Hold | Meaning::Stop | Meaning::Terminal => {
            ("FAILED no", Some("RAIL_DECLINED"))
        }
        Meaning::TerminalReview => ("FAILED unknown", Some("RAIL_DECLINED")),
    }
}

/// All rows but those of fields that nothing makes the simulator decide by.
async fn first_replies_mean_what_their_rows_say(rail: Name, unplayed: &[&str]) {
    let rows: Vec<_> =
        table(rail).rows.into_iter().filter(|row| row.operation == Operation::Disburse).collect();
    let (mut left_out, mut holds, mut others) = (BTreeSet::new(), Vec::new(), Vec::new());
    for row in &rows {
        match said_at_once(rail, row) {
            None => {
                left_out.insert(row.field.as_str());
            }
            Some((plan, taken)) if matches!(row.class, Meaning::Hold | Meaning::Stop) => {
                holds.push((row, plan, taken));
            }
            Some((plan, taken)) => others.push((row, plan, taken)),
        }
    }
    assert_eq!(left_out, BTreeSet::from_iter(unplayed.iter().copied()));

    // Each hold stops a host for a while: all of them are judged without one.
    let straight = Straight::start(rail).await;
    for (row, plan, taken) in &holds {
        straight.simulator.follow(&format!("otherwise: {plan}")).expect("it is sound");
        let decision = straight.judge(&payment(rail, "5.00")).await;
        let stops = row.class == Meaning::Stop;
        let class = match (taken, stops) {
            (true, _) => Class::Terminal,
            (false, true) => Class::Stop,
            (false, false) => Class::Hold,
        };
        assert_eq!((decision.class, decision.opens_breaker), (class, true), "{row:?}: {decision:?}");
        assert_eq!(decision.stops_rail, stops, "{row:?}: {decision:?}");
        assert_eq!(decision.rail_code.as_ref(), Some(&row.code), "{row:?}: {decision:?}");
    }

    others.extend(holds.into_iter().filter(|(row, ..)| row.class == Meaning::Hold).take(1));
    let plans: Vec<_> = others.iter().map(|(_, plan, _)| plan.clone()).collect();
    for (told, (row, _, taken)) in play(rail, &plans).await.iter().zip(&others) {
        let ended = &told.ended;
        let found = (told.verdict(), told.first.as_deref());
        assert_eq!((found.0.as_str(), found.1), recorded(row.class, *taken), "{row:?}: {ended:#?}");
        if ended.attempts.len() == 1 && row.class != Meaning::Hold {
            assert_eq!(ended.rail_code.as_ref(), Some(&row.code), "{row:?}: {ended:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mtns_first_replies_mean_what_their_rows_say() {
    first_replies_mean_what_their_rows_say(Name::Mtn, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn airtels_first_replies_mean_what_their_rows_say() {
    first_replies_mean_what_their_rows_say(Name::Airtel, &["status"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_banks_first_replies_mean_what_their_rows_say() {
    first_replies_mean_what_their_rows_say(Name::Bank, &["group_status", "payment_status", "proprietary"])
        .await;
}
