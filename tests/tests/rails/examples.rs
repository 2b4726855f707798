//! The files beside the adapters that an integrator would copy, and what a rail file can say besides: payees looked at before they
//! are paid, hours, floats.

use std::path::{Path, PathBuf};

use harness::DbUser;
use harness::host::until_all_have_a_verdict;
use harness::rail_run::{RailRun, payment};
use harness::sql::column;
use rail::definition::Definition;
use rail_simulators::{Name, SimulatorOptions};
use serde_json::{Value, json};
use toml::Table;

fn example(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins").join(of)
}

fn to(msisdn: &str) -> Value {
    json!({ "amount": "5.00", "currency": "ZMW", "destination": msisdn })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_three_of_airtel_pays_and_refuses_payees_who_are_barred_or_unknown() {
    let options = SimulatorOptions::new(Name::Airtel).script("amount 6.00: pay close-after");
    let play = RailRun::of_file(&example("airtel/v3.toml"), options, |_| {}).await;
    play.pay(&[
        payment(Name::Airtel, "5.00"),
        payment(Name::Airtel, "6.00"),
        to("260970000000"),
        to("260970000001"),
    ])
    .await;
    let ended = play.end().await;
    let told: Vec<_> = ended
        .iter()
        .map(|ended| {
            (ended.state.as_str(), ended.money_moved.as_str(), ended.rail_code.as_deref(), ended.requests)
        })
        .collect();
    assert_eq!(told[0], ("DISPATCHED", "yes", Some("DP00900001001"), 1));
    assert_eq!((told[1].0, told[1].1), ("DISPATCHED", "yes"));
    assert_eq!(told[2], ("FAILED", "no", Some("true"), 0), "{ended:#?}");
    assert_eq!(told[3], ("FAILED", "no", Some("DP02200000000"), 0), "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mtn_looks_at_payees_before_it_pays_them() {
    let zambian_or_not = |file: &mut Table| {
        // The numbers of MTN's sandbox are Swedish.
        file["destination"]["parts"]["msisdn"]["country"] = "46".into();
    };
    let play =
        RailRun::of_file(&example("mtn/lookup.toml"), SimulatorOptions::new(Name::Mtn), zambian_or_not).await;
    play.pay(&[to("46733120000"), to("46733123450"), to("46733123451")]).await;
    let ended = play.end().await;
    let told: Vec<_> = ended
        .iter()
        .map(|ended| (ended.state.as_str(), ended.rail_code.as_deref(), ended.requests))
        .collect();
    assert_eq!(told[0], ("DISPATCHED", Some("SUCCESSFUL"), 1));
    assert_eq!(told[1], ("FAILED", Some("RESOURCE_NOT_FOUND"), 0));
    assert_eq!(told[2], ("FAILED", Some("false"), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bank_with_version_03_is_paid_within_its_hours() {
    let play = RailRun::of_file(&example("bank/eft.toml"), SimulatorOptions::new(Name::Bank), |file| {
        file["hours"] = at_any_time();
    })
    .await;
    play.pay(&[payment(Name::Bank, "5.00")]).await;
    let ended = play.end().await;
    assert_eq!((ended[0].state.as_str(), ended[0].requests), ("DISPATCHED", 1), "{ended:#?}");
}

fn at_any_time() -> toml::Value {
    let hours = "days = [\"mon\", \"tue\", \"wed\", \"thu\", \"fri\", \"sat\", \"sun\"]\nfrom = \"00:00\"\nto = \"23:59\"";
    toml::Value::Table(hours.parse().expect("TOML"))
}

/// No day near this one.
fn never() -> toml::Value {
    let near = [-1, 0, 1].map(|days| {
        (chrono::Utc::now() + chrono::TimeDelta::days(days)).format("%a").to_string().to_lowercase()
    });
    let far: Vec<&str> = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
        .into_iter()
        .filter(|day| !near.contains(&(*day).to_owned()))
        .collect();
    toml::Value::Table(format!("days = {far:?}\nfrom = \"00:00\"\nto = \"23:59\"").parse().expect("TOML"))
}

/// When the first claims of all payments were made, by the database's clock.
async fn claimed_at(play: &RailRun) -> Vec<chrono::DateTime<chrono::Utc>> {
    let mut owner = play.db.connect(DbUser::Superuser).await;
    column(&mut owner, "select min(claimed_at) from symphony.payment_outbox_attempts group by outbox_id")
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_to_a_rail_that_is_closed_and_all_of_it_when_it_opens() {
    let play = RailRun::with(SimulatorOptions::new(Name::Bank), |file| {
        file.insert("hours".to_owned(), never());
    })
    .await;
    play.host.until_metric(r#"rail_closed{rail="bank"}"#, |closed| closed == 1.0).await;
    play.pay(&[payment(Name::Bank, "5.00"), payment(Name::Bank, "6.00")]).await;
    let opened = chrono::Utc::now();
    play.change(|file| {
        file["hours"] = at_any_time();
    })
    .await;
    until_all_have_a_verdict(&play.db).await;
    for claimed in claimed_at(&play).await {
        assert!(claimed >= opened, "claimed at {claimed}, opened at {opened}");
    }
    assert!(play.end().await.iter().all(|ended| ended.state == "DISPATCHED"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_paid_while_less_is_left_than_the_floor() {
    for (rail, enough) in [(Name::Mtn, "5000.00"), (Name::Airtel, "5000.01")] {
        let options = SimulatorOptions::new(rail);
        let play = RailRun::before(
            options,
            |simulator| simulator.set_float("4999.99"),
            |file| {
                let float = file["float"]["ZMW"].as_table_mut().expect("a float");
                float.insert("every_seconds".to_owned(), 1.into());
            },
        )
        .await;
        let line = |name: &str| format!("{name}{{currency=\"ZMW\",rail=\"{rail}\"}}");
        play.host.until_metric(&line("rail_float_low"), |low| low == 1.0).await;
        assert_eq!(play.host.metric(&line("rail_float")), 4999.99);
        play.pay(&[payment(rail, "5.00"), payment(rail, "6.00")]).await;
        let filled = chrono::Utc::now();
        play.simulator.set_float(enough);
        until_all_have_a_verdict(&play.db).await;
        for claimed in claimed_at(&play).await {
            assert!(claimed >= filled, "{rail}: claimed at {claimed}, filled at {filled}");
        }
        assert!(play.end().await.iter().all(|ended| ended.state == "DISPATCHED"));
    }
}

/// What differs in two files is what their first lines say: their codes are the same but for the look at the payee.
#[test]
fn the_examples_keep_to_the_codes_of_the_files_that_they_vary() {
    for (of, varies, own) in [
        ("airtel/v3.toml", "airtel", &["payee_code", "is_barred"][..]),
        ("mtn/lookup.toml", "mtn", &["payee_code", "is_active"]),
        ("bank/eft.toml", "bank", &[]),
    ] {
        let file = harness::rail_run::rails_folder().join(format!("{varies}.toml"));
        let of = Definition::load(&example(of)).expect("sound").file.codes;
        let mut rows = of.rows;
        rows.retain(|row| !own.contains(&row.field.as_str()));
        assert_eq!(rows, Definition::load(&file).expect("sound").file.codes.rows, "{varies}");
    }
}
