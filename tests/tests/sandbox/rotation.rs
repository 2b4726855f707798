//! New secrets and certificates under a running host.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use aws_lc_rs::hmac;
use harness::PATIENCE;
use harness::adapter_rig::{API_KEY, AdapterRig, guest, write_secret};
use harness::rail::Reply;
use rail::{LoadOutcome, Reloaded, Rules};
use uuid::Uuid;

#[tokio::test]
async fn a_new_secret_is_used_by_the_next_call_and_the_old_one_by_those_in_flight() {
    let rig = AdapterRig::with(|_| Reply::says(200, "paid")).await;
    rig.put_rail("one", &guest("shows_reply"), |text| text);
    let (rails, _) = rig.load_rails(Rules::default()).await.expect("they load");
    let rail = rails.get("one").expect("it is there");
    let in_flight = rail.current();
    let keys = || -> Vec<String> {
        let key = |asked: &harness::rail::ReceivedRequest| {
            asked.headers["x-api-key"].to_str().expect("text").to_owned()
        };
        rig.rail.asked().iter().map(key).collect()
    };
    tokio::select! {
        ended = rails.watch(&rig.sandbox, Duration::from_millis(20)) => panic!("{ended:?}"),
        () = async {
            write_secret(&rig.path("rails/api-key"), "rotated-api-key-0b1d");
            let patience = Instant::now();
            while Arc::ptr_eq(&rail.current(), &in_flight) {
                assert!(patience.elapsed() < PATIENCE, "the change was not noticed");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        } => {}
    }
    rig.disburse(&in_flight).await;
    rig.disburse(&rail.current()).await;
    assert_eq!(keys(), [API_KEY, "rotated-api-key-0b1d"]);
    assert_eq!(rail.current().digest, in_flight.digest, "the component is the same");
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_is_refused_and_the_old_one_goes_on() {
    let rig = AdapterRig::new().await;
    rig.put_rail("one", &guest("shows_reply"), |text| text);
    let (rails, mut told) = rig.load_rails(Rules::default()).await.expect("they load");
    told.try_recv().expect("the start is told");
    let spoilers: [fn(&Path) -> io::Result<()>; 2] =
        [|path| fs::remove_file(path), |path| fs::write(path, "")];
    for spoil in spoilers {
        spoil(&rig.path("rails/api-key")).expect("spoilt");
        let report = rails.reload(&rig.sandbox).await.expect("a report");
        let Reloaded::Refused(refused) = &report["one"] else { panic!("{report:?}") };
        assert!(refused.to_string().contains("secrets.api-key refers to"), "{refused}");
        assert_eq!(told.try_recv().expect("it is told").outcome, LoadOutcome::Refused);
    }
    rig.disburse(&rails.get("one").expect("it goes on").current()).await;
    assert_eq!(rig.rail.asked()[0].headers["x-api-key"], API_KEY);
}

#[tokio::test]
async fn every_file_that_a_rail_refers_to_is_looked_at() {
    let rig = AdapterRig::new().await;
    let more = "ca = \"ca.pem\"\nclient = { certificate = \"client.pem\", key = { file = \"client.key\" } }";
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = || {
        let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        parameters.self_signed(&key).expect("signed").pem()
    };
    let write = |name: &str, text: &str| write_secret(&rig.path("rails").join(name), text);
    rig.put_rail("one", &guest("pays_and_tells"), |text| {
        text.replace("http://", "https://")
            .replace("reach = \"loopback\"", &format!("reach = \"loopback\"\n{more}"))
            .replace(
                "[tokens.access]",
                "[keys]\nk = { algorithm = \"hmac-sha256\", key = { file = \"hmac\" } }\n[tokens.access]",
            )
    });
    write("ca.pem", &certificate());
    write("client.pem", &certificate());
    write("client.key", &key.serialize_pem());
    write("hmac", "a secret");
    let (rails, _) = rig.load_rails(Rules::default()).await.expect("they load");
    for (name, text) in [
        ("ca.pem", certificate()),
        ("client.pem", certificate()),
        ("client.key", format!("{}\n", key.serialize_pem())),
        ("hmac", "another".to_owned()),
        ("password", "another".to_owned()),
    ] {
        let report = rails.reload(&rig.sandbox).await.expect("a report");
        assert!(matches!(report["one"], Reloaded::Unchanged), "before {name}: {report:?}");
        write(name, &text);
        let report = rails.reload(&rig.sandbox).await.expect("a report");
        assert!(matches!(report["one"], Reloaded::Swapped { .. }), "{name}: {report:?}");
    }
}

/// What stands at the end of the address that a rail is given for its callback.
fn proof(key: &str, outbox_id: Uuid) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    hex::encode(hmac::sign(&key, outbox_id.to_string().as_bytes()))
}

#[tokio::test]
async fn a_callback_under_the_key_before_a_rotation_is_still_vouched_for() {
    let rig = AdapterRig::new().await;
    let key = "[keys]\ncallback = { algorithm = \"hmac-sha256\", key = { file = \"callback\" } }";
    rig.put_rail("one", &guest("pays_and_tells"), |text| {
        text.replace("[tokens.access]", &format!("{key}\n[tokens.access]"))
    });
    let keys = ["the first key", "the second key", "the third key"];
    let rotate = |key: &str| write_secret(&rig.path("rails/callback"), key);
    rotate(keys[0]);
    let (rails, _) = rig.load_rails(Rules::default()).await.expect("they load");
    let (rail, payment) = (rails.get("one").expect("it is there"), Uuid::now_v7());
    let vouched = || keys.map(|key| rail.vouches(payment, &proof(key, payment)));
    assert_eq!(vouched(), [true, false, false]);
    for (key, expected) in [(keys[1], [true, true, false]), (keys[2], [false, true, true])] {
        rotate(key);
        let report = rails.reload(&rig.sandbox).await.expect("a report");
        assert!(matches!(report["one"], Reloaded::Swapped { .. }), "{report:?}");
        assert_eq!(vouched(), expected, "the address was given out under the key of then");
    }
    assert!(!rail.vouches(Uuid::now_v7(), &proof(keys[2], payment)), "it is for another payment");
}
