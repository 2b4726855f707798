//! What has to hold on each rail.

use form::{Meaning, Operation};
use harness::rail_run::{
    Ended, RailRun, ask_nobody, codes, impatient, key, payment, play, play_with, set, table,
};
use harness::world::leave_out_question;
use rail_simulators::{Name, SimulatorOptions};
use serde_json::json;
use uuid::Uuid;

use crate::straight::Straight;

/// One test for each of the three rails.
macro_rules! on_each_rail {
    ($(async fn $name:ident($rail:ident: Name) $body:block)*) => {
        $(async fn $name($rail: Name) $body)*

        mod mtn {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(rail_simulators::Name::Mtn).await;
            })*
        }

        mod airtel {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(rail_simulators::Name::Airtel).await;
            })*
        }

        mod bank {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(rail_simulators::Name::Bank).await;
            })*
        }
    };
}

fn plans(plans: &[&str]) -> Vec<String> {
    plans.iter().map(|plan| (*plan).to_owned()).collect()
}

fn all_paid(ended: &[Ended], plans: &[&str]) {
    for (ended, plan) in ended.iter().zip(plans) {
        assert_eq!((ended.state.as_str(), ended.executions), ("DISPATCHED", 1), "{plan}: {ended:#?}");
    }
}

/// An error with a code that says nothing, though the money moved.
fn refused_and_paid(rail: Name) -> &'static str {
    match rail {
        Name::Mtn => "pay refuse-after 500 INTERNAL_PROCESSING_ERROR",
        Name::Airtel => "pay refuse-after 500 DP00900001000",
        Name::Bank => "pay refuse-after 500 SORRY",
    }
}

/// The code with which the rail's status says no, by the rail.
fn refusal_field(rail: Name) -> &'static str {
    match rail {
        Name::Mtn | Name::Bank => "reason",
        Name::Airtel => "response_code",
    }
}

on_each_rail! {
    async fn payments_arrive_whatever_happens_to_requests_and_replies(rail: Name) {
        let faults = [
            "",
            "pay slow 200",
            "pay close-after",
            "pay close-before, accept",
            "pay reset-after",
            "pay reset-before, accept",
            "pay truncate",
            "pay html-before 500, accept",
            "pay html-after 502",
            "pay html-after 503",
            "pay empty-before 503, accept",
            "pay empty-after 504",
            "pay empty-after 408",
            "pay busy, accept",
            "pay busy 1, accept",
            "then pending, after 1s settled",
            "then missing, after 1s settled",
            "pay close-after; then missing, after 1s settled",
            "pay close-after; ask html 503, empty 500, close, truncate, busy, accept",
            "pay close-before, close-before, accept; ask html 500, accept",
            refused_and_paid(rail),
        ];
        all_paid(&play(rail, &plans(&faults)).await, &faults);
    }

    async fn payments_arrive_though_the_rail_falls_silent(rail: Name) {
        let faults = [
            "pay hang-after",
            "pay hang-before, accept",
            "pay hang-after; then missing, after 1s settled",
            "pay hang-after; ask hang, reset, accept; then pending, after 1500ms settled",
        ];
        all_paid(&play_with(rail, &plans(&faults), impatient).await, &faults);
    }

    async fn an_error_that_breaks_off_refuses_nothing(rail: Name) {
        let faults = [
            "pay truncate 500",
            "pay truncate-before 503, accept",
            "pay truncate-before 400, accept",
            "pay truncate-before 401, accept",
            "pay close-after; ask truncate 500, accept",
        ];
        let ended = play(rail, &plans(&faults)).await;
        all_paid(&ended, &faults);
        for (ended, plan) in ended.iter().zip(faults) {
            assert_eq!(ended.attempts[0].as_deref(), Some("OUTCOME_UNKNOWN"), "{plan}: {ended:#?}");
        }
    }

    async fn a_key_that_comes_again_is_not_paid_again_and_another_body_under_it_is_noticed(rail: Name) {
        let (straight, id) = (Straight::start(rail).await, Uuid::new_v4());
        let (first, again) = match rail {
            Name::Mtn => ("pending", "pending RESOURCE_ALREADY_EXIST"),
            Name::Airtel => ("settled DP00900001001", "pending DP00900001011"),
            Name::Bank => ("settled ACSC", "pending DU01"),
        };
        for (amount, expected) in [("5.00", first), ("5.00", again), ("6.00", again)] {
            assert_eq!(straight.pay(id, &payment(rail, amount)).await, expected);
        }
        let entry = straight.simulator.entry(&key(rail, id)).expect("it is there");
        assert_eq!(
            (entry.requests, entry.conflicting, entry.executions, entry.amount.as_str()),
            (3, 1, 1, "5.00")
        );
    }

    async fn a_refusal_means_what_the_table_says_of_its_code(rail: Name) {
        let field = refusal_field(rail);
        let of = |class| codes(rail, Operation::QueryStatus, field, class);
        // Each hold stops the rail for a while: three of them say as much as sixty.
        let holds = of(Meaning::Hold).into_iter().take(3).collect();
        let (no, review) =
            ([of(Meaning::Terminal), of(Meaning::Retryable), holds].concat(), of(Meaning::TerminalReview));
        let all: Vec<_> = no.iter().chain(&review).collect();
        // Not before it was asked about: what a first reply says is another question.
        let plans: Vec<_> = all.iter().map(|code| format!("pay close-after; then failed {code}")).collect();
        let ended = play(rail, &plans).await;
        for (ended, code) in ended.iter().zip(all) {
            let money = if no.contains(code) { "no" } else { "unknown" };
            assert_eq!(
                (ended.state.as_str(), ended.money_moved.as_str(), ended.rail_code.as_deref(), ended.executions),
                ("FAILED", money, Some(code.as_str()), 0),
                "{code}: {ended:#?}"
            );
        }
    }

    async fn a_final_no_is_the_last_word_on_its_key_also_where_another_day_might_bring_a_yes(rail: Name) {
        let field = refusal_field(rail);
        let of = |class| codes(rail, Operation::QueryStatus, field, class).into_iter().next();
        let both: Vec<_> = [of(Meaning::Hold), of(Meaning::Retryable)].into_iter().flatten().collect();
        let ended = play(rail, &both.iter().map(|code| format!("then failed {code}")).collect::<Vec<_>>()).await;
        for (ended, code) in ended.iter().zip(both) {
            assert_eq!(
                (ended.state.as_str(), ended.money_moved.as_str(), ended.requests),
                ("FAILED", "no", 1),
                "{code}: {ended:#?}"
            );
        }
    }

    async fn a_rail_that_pays_what_it_refused_is_convicted_by_its_ledger(rail: Name) {
        let code = codes(rail, Operation::QueryStatus, refusal_field(rail), Meaning::Terminal).remove(0);
        let play = RailRun::start(rail, &format!("otherwise: then failed {code}, after 30s settled")).await;
        play.pay(&[payment(rail, "5.00")]).await;
        let (ended, audit) = play.judged().await;
        assert_eq!((ended[0].0.state.as_str(), ended[0].0.money_moved.as_str()), ("FAILED", "no"));
        assert_eq!((audit.disagreed, audit.agrees()), (1, false), "the judge looks to the end: {audit:?}");
    }

    async fn a_code_that_no_table_lists_decides_nothing_by_itself(rail: Name) {
        let listed = table(rail).rows.iter().any(|row| row.code.starts_with("NEW"));
        assert!(!listed);
        let silent = plans(&["pay hang-after; then failed NEW1", "then says NEW2, after 1s settled"]);
        let ended = play_with(rail, &silent, impatient).await;
        let first = &ended[0];
        assert_eq!(
            (first.state.as_str(), first.money_moved.as_str(), first.rail_code.as_deref()),
            ("FAILED", "unknown", Some("NEW1")),
            "the rail says no, and a person has to find out why: {first:#?}"
        );
        assert_eq!(ended[1].state, "DISPATCHED", "a status that nobody knows is asked about again");
    }

    async fn a_code_that_no_table_lists_refuses_nothing_at_the_door_either(rail: Name) {
        let codes: &[&str] = match rail {
            Name::Mtn | Name::Bank => &["NEWS"],
            Name::Airtel => &["NEWS", "ROUTER999", "DP00900009999"],
        };
        let door = |code: &&str| [200, 400, 500].map(|http| format!("pay refuse {http} {code}, accept"));
        let plans: Vec<_> = codes.iter().flat_map(door).collect();
        for (ended, plan) in play(rail, &plans).await.iter().zip(&plans) {
            assert_eq!(
                (ended.attempts[0].as_deref(), ended.state.as_str(), ended.executions),
                (Some("OUTCOME_UNKNOWN"), "DISPATCHED", 1),
                "{plan}: {ended:#?}"
            );
        }
    }

    async fn a_payment_that_stays_pending_is_never_sent_again(rail: Name) {
        let ended = play(rail, &plans(&["then pending"])).await;
        assert_eq!(
            (ended[0].state.as_str(), ended[0].money_moved.as_str(), ended[0].requests),
            ("FAILED", "unknown", 1),
            "{ended:#?}"
        );
        assert_eq!(ended[0].attempts.len(), 20, "it was asked about as often as it may be");
    }

    async fn a_verdict_stands_though_the_rail_takes_it_back_later(rail: Name) {
        let flaps = ["then settled, after 10m failed LATE", "then pending, after 200ms settled, after 10m failed LATE"];
        all_paid(&play(rail, &plans(&flaps)).await, &flaps);
    }

    async fn a_token_that_dies_in_between_is_renewed_under_the_same_key(rail: Name) {
        let play = RailRun::start(rail, "").await;
        for round in 0..3 {
            play.pay(&vec![payment(rail, "5.00"); round + 1]).await;
            harness::host::until_all_have_a_verdict(&play.db).await;
            play.simulator.expire_tokens();
        }
        let sessions = play.simulator.counts().sessions;
        assert!(if rail == Name::Bank { sessions == 0 } else { sessions >= 3 }, "{sessions} sessions");
        let ended = play.end().await;
        assert!(ended.iter().all(|ended| ended.state == "DISPATCHED" && ended.executions == 1), "{ended:#?}");
    }

    async fn a_token_that_dies_before_the_question_is_renewed_for_it(rail: Name) {
        let options = SimulatorOptions::new(rail).script("otherwise: then pending, after 1s settled");
        let play = RailRun::with(options, ask_nobody).await;
        play.pay(&[payment(rail, "5.00")]).await;
        harness::host::until(&play.db, "payment_outbox_attempts", |rows| rows >= 1).await;
        play.simulator.expire_tokens();
        play.ask_until_all_have_a_verdict().await;
        let sessions = play.simulator.counts().sessions;
        let ended = play.end().await.remove(0);
        assert_eq!((ended.state.as_str(), ended.requests, ended.executions), ("DISPATCHED", 1, 1), "{ended:#?}");
        let was_refused = ended.attempts.contains(&Some("QUERY_FAILED".to_owned()));
        let expected = if rail == Name::Bank { (false, 0) } else { (true, 2) };
        assert_eq!((was_refused, sessions), expected, "{ended:#?}");
    }

    async fn sessions_that_do_not_open_neither_lose_nor_double_a_payment(rail: Name) {
        let script = "session html 503, close, hang, refuse 401 NO, accept\notherwise: then pending, after 1s settled";
        let play = RailRun::with(SimulatorOptions::new(rail).script(script), |file| {
            impatient(file);
            ask_nobody(file);
        }).await;
        play.pay(&vec![payment(rail, "5.00"); 3]).await;
        let sent = "payment_outbox_pending where unsettled and lease_token is null";
        harness::host::until(&play.db, sent, |rows| rows == 3).await;
        let faults = |play: &RailRun| play.simulator.counts().faults.values().sum::<u64>();
        let before = faults(&play);
        assert_eq!(before, if rail == Name::Bank { 0 } else { 4 }, "{:?}", play.simulator.counts());
        // Now those that ask.
        play.simulator.follow("session reset, truncate, truncate 502, busy, accept").expect("it is sound");
        play.simulator.expire_tokens();
        play.ask_until_all_have_a_verdict().await;
        assert!(rail == Name::Bank || faults(&play) > before, "{:?}", play.simulator.counts());
        for ended in play.end().await {
            assert_eq!((ended.state.as_str(), ended.requests, ended.executions), ("DISPATCHED", 1, 1), "{ended:#?}");
        }
    }

    async fn a_rail_that_forgets_its_keys_would_be_found_out(rail: Name) {
        // The ledger is no judge if it cannot convict.
        let options = SimulatorOptions { forgetful: true, ..SimulatorOptions::new(rail).script("otherwise: pay close-after") };
        let play = RailRun::with(options, |file| {
            set(file, "pace", "resend_is_safe", true);
            leave_out_question(file);
        }).await;
        play.pay(&[payment(rail, "5.00")]).await;
        harness::host::until(&play.db, "payment_outbox_attempts", |rows| rows >= 3).await;
        assert!(play.simulator.counts().doubled > 0, "{:?}", play.simulator.counts());
    }

    async fn amounts_arrive_digit_by_digit(rail: Name) {
        // Airtel's is a JSON number, of which no more digits are sent than a float holds.
        let greatest = if rail == Name::Airtel { "9007199254740.93" } else { "90071992547409.93" };
        let amounts = ["0.01", "1.00", "999999999999.99", greatest];
        let play = RailRun::start(rail, "").await;
        play.pay(&amounts.map(|amount| payment(rail, amount))).await;
        let told = play.end_with_entries().await;
        for ((ended, entry), amount) in told.iter().zip(amounts) {
            let entry = entry.as_ref().expect("it arrived");
            assert_eq!((ended.state.as_str(), entry.amount.as_str()), ("DISPATCHED", amount), "{ended:#?}");
        }
    }

    async fn what_cannot_be_sent_is_refused_with_all_reasons_and_no_request(rail: Name) {
        let play = RailRun::start(rail, "").await;
        let note = "x".repeat(200);
        let destination = match rail {
            Name::Mtn | Name::Airtel => json!({ "msisdn": "12-34" }),
            Name::Bank => json!({ "account": "12-34", "bic": "nope", "name": "" }),
        };
        let bad = json!({ "amount": "5.00", "currency": "ZMW", "destination": destination, "narrative": note });
        let mut dollars = payment(rail, "5.00");
        dollars["currency"] = "USD".into();
        play.pay(&[bad, payment(rail, "1.001"), dollars]).await;
        let ended = play.end().await;
        let expected: &[&str] = match rail {
            Name::Mtn => &["destination.msisdn", "narrative"],
            Name::Airtel => &["destination.msisdn", "narrative"],
            Name::Bank => &["destination.account", "destination.bic", "destination.name", "narrative"],
        };
        let message = ended[0].message.as_deref().unwrap_or_default();
        assert!(expected.iter().all(|field| message.contains(field)), "{message}");
        assert!(ended[2].message.as_deref().is_some_and(|message| message.contains("currency")), "{ended:#?}");
        for ended in &ended {
            assert_eq!(
                (ended.state.as_str(), ended.money_moved.as_str(), ended.requests, ended.attempts[0].as_deref()),
                ("FAILED", "no", 0, Some("INVALID_PAYLOAD")),
                "{ended:#?}"
            );
        }
    }

    async fn a_reply_that_is_no_reply_leaves_the_payment_to_a_person(rail: Name) {
        let ended = play(rail, &plans(&["pay html-after 500; ask html 500"])).await;
        let message = ended[0].message.as_deref().unwrap_or_default();
        assert_eq!((ended[0].state.as_str(), ended[0].money_moved.as_str()), ("FAILED", "unknown"), "{ended:#?}");
        assert!(message.starts_with("the reply "), "it says what was wrong with the reply: {message}");
    }
}
