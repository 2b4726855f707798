//! Three made-up rails with the habits of many, as an integrator would ship them: their files, their adapter, their recorded
//! exchanges, and a simulator that reads with other parsers than the host.

use std::convert::Infallible;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::adapter_rig::write_secret;
use harness::host::{Host, enqueue_as};
use harness::sql::{column, scalar};
use harness::{Db, DbUser, PATIENCE, Pg, railhost};
use observe::Registry;
use rail::{self, Rails, Rules, Sandbox};
use relayer::{Metrics, RelayerOptions, callbacks};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use toml::Table;
use verdict::digest::Digest;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/habits")
}

struct Simulator {
    process: Child,
    port: u16,
}

impl Simulator {
    fn start(options: &[&str]) -> Self {
        let spawned = Command::new("python3")
            .arg(folder().join("simulator.py"))
            .args(options)
            .stdout(Stdio::piped())
            .spawn();
        let mut process = spawned.unwrap_or_else(|error| {
            println!("NOT RUN: habits: python3: {error}");
            panic!("NOT RUN: habits: python3: {error}");
        });
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        Self { process, port: line.trim().parse().expect("a port") }
    }

    fn ledger(&self) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.write_all(b"GET /ledger HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("asked");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("a page");
        serde_json::from_str(page.split_once("\r\n\r\n").expect("a body").1).expect("JSON")
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// The rail file as a platform team would have it: the component pinned, secrets in files, the simulator's address.
fn rail_file(rail: &str, simulator: &Simulator, into: &TempDir) -> String {
    let component = fs::read(env!("HABITS")).expect("the component");
    fs::write(into.path().join("rail_habits.wasm"), &component).expect("written");
    let text = fs::read_to_string(folder().join(format!("{rail}.toml"))).expect("a rail file");
    let mut file: Table = toml::from_str(&text).expect("TOML");
    file["sha256"] = Digest::of(&component).to_string().into();
    file["base"] = format!("http://127.0.0.1:{}", simulator.port).into();
    let more: Table = toml::from_str(
        r#"
        timeouts = { call_ms = 20000, first_byte_ms = 15000, idle_ms = 15000, connect_ms = 15000 }
        pace = { lease_seconds = 45, concurrency = 8, reconcile_seconds = 0, visibility_seconds = 0, retry = { base_ms = 100, factor = 1, cap_ms = 100 }, query = { base_ms = 150, factor = 1, cap_ms = 150 } }
        network = { reach = "loopback" }
        "#,
    )
    .expect("TOML");
    file.extend(more);
    let secret = |name: &str, value: &str| {
        write_secret(&into.path().join(name), value);
        let source = Table::from_iter([("file".to_owned(), name.to_owned().into())]);
        toml::Value::Table(source)
    };
    match rail {
        "agency" => {
            file["secrets"]["client_id"] = secret("client_id", "habits-client");
            file["secrets"]["client_secret"] = secret("client_secret", "habits-secret");
            file["keys"]["body"]["key"] = secret("body_key", "habits-body-key");
        }
        "switch" => {
            for key in ["request", "answer", "told"] {
                file["keys"][key]["key"] = secret(key, &format!("habits-{key}-key"));
            }
        }
        _ => file["keys"]["address"]["key"] = secret("address_key", "habits-address-key"),
    }
    toml::to_string(&file).expect("TOML")
}

/// Pays over a rail until nothing is pending: what the simulator paid, and the books.
async fn pay(rail: &str, options: &[&str], payments: &[Value]) -> (Value, Db) {
    pay_and_be_told(rail, options, payments, None).await
}

/// The same, and takes what the rail tells unasked.
async fn pay_and_be_told(
    rail: &str,
    options: &[&str],
    payments: &[Value],
    listener: Option<TcpListener>,
) -> (Value, Db) {
    let (db, simulator, folder) =
        (Db::fresh(Pg::V15).await, Simulator::start(options), tempfile::tempdir().expect("a folder"));
    fs::write(folder.path().join(format!("{rail}.toml")), rail_file(rail, &simulator, &folder))
        .expect("written");
    let sandbox = Sandbox::new(
        &folder.path().join("compiled"),
        harness::railhost_path(),
        rail::SandboxOptions::default(),
    )
    .expect("a sandbox");
    let told = match listener {
        None => None,
        Some(listener) => Some(take_callbacks(listener, &db, folder.path()).await),
    };
    for (n, payment) in payments.iter().enumerate() {
        enqueue_as(&db, &format!("p{n}"), rail, std::slice::from_ref(payment)).await;
    }
    let host = Host::over(db.database(), Arc::new(sandbox), folder.path(), RelayerOptions::default()).await;
    let mut owner = db.connect(DbUser::Superuser).await;
    let began = Instant::now();
    while scalar::<i64>(&mut owner, "select count(*) from symphony.payment_outbox_pending").await > 0 {
        assert!(began.elapsed() < PATIENCE, "payments are stuck");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    host.drain().await;
    if let Some(told) = told {
        told.abort();
    }
    (simulator.ledger(), db)
}

async fn take_callbacks(listener: TcpListener, db: &Db, rails: &Path) -> JoinHandle<Infallible> {
    let sandbox =
        Sandbox::new(&rails.join("compiled"), harness::railhost_path(), rail::SandboxOptions::default());
    let (sandbox, (events, _)) = (Arc::new(sandbox.expect("a sandbox")), mpsc::unbounded_channel());
    let rails = Arc::new(Rails::load(&sandbox, rails, Rules::default(), events).await.expect("they load"));
    let (database, metrics) = (db.database(), Arc::new(Metrics::new(&Registry::default()).expect("metrics")));
    tokio::spawn(async move { callbacks::serve(listener, &database, sandbox, rails, metrics).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_comes_by_a_signed_callback_and_by_nothing_that_is_forged() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}/callbacks/switch", listener.local_addr().expect("an address"));
    let to =
        |amount: &str, account: &str| json!({ "amount": amount, "currency": "ZMW", "destination": account });
    let payments = [to("10.50", "A1b2"), to("7.00", "C3d4"), to("3.00", "NOBODY")];
    let options = ["--lose", "1", "--tell", &address];
    let (ledger, db) = pay_and_be_told("switch", &options, &payments, Some(listener)).await;
    let mut paid: Vec<(u64, u64)> = ledger
        .as_object()
        .expect("a ledger")
        .values()
        .map(|entry| {
            (entry["amount"].as_u64().expect("a number"), entry["executions"].as_u64().expect("a number"))
        })
        .collect();
    paid.sort();
    assert_eq!(paid, [(700, 1), (1050, 1)]);
    let mut states = states(&db).await;
    states.sort();
    let mut owner = db.connect(DbUser::Superuser).await;
    let told: Vec<String> = column(
        &mut owner,
        "select concat_ws(' ', sequence_id, attempt_no, state, error_code, error_message, witness) from symphony.payment_outbox_attempts order by 1",
    )
    .await;
    let expected = ["DISPATCHED yes DONE", "DISPATCHED yes DONE", "FAILED no NO_SUCH_PAYEE"];
    assert_eq!(states, expected, "{told:#?}");
    let kept: i64 =
        scalar(&mut owner, "select count(*) from symphony.payment_outbox_late_answers where of_key").await;
    assert_eq!(kept, 3, "each once, though it was told twice, and none that was forged");
    let found: i64 = scalar(
        &mut owner,
        "select count(*)
           from symphony.payment_outbox_attempts a
          where a.state in ('DISPATCHED', 'FAILED')
            and a.outbox_id in (select symphony.payments_of_key('switch',
                                         left(encode(sha256(convert_to(a.outbox_id::text, 'UTF8')), 'hex'), 12)))",
    )
    .await;
    assert_eq!(found, 3, "a callback that comes later still finds its payment");
    let answered: i64 = scalar(
        &mut owner,
        "select count(*) from symphony.payment_outbox_attempts where witness like 'transfer body 403, transfer body%'",
    )
    .await;
    assert_eq!(answered, 3, "each challenge was answered");
}

async fn states(db: &Db) -> Vec<String> {
    let mut owner = db.connect(DbUser::Superuser).await;
    column(
        &mut owner,
        "select state || ' ' || money_moved || coalesce(' ' || rail_code, '') from symphony.payment_outbox_attempts
          where state in ('DISPATCHED', 'FAILED') order by sequence_id, outbox_id",
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quote_and_a_recipient_come_first_and_the_transfer_pays_what_they_say() {
    let to =
        |amount: &str, msisdn: &str| json!({ "amount": amount, "currency": "ZMW", "destination": msisdn });
    let payments = [to("10.50", "260961234567"), to("7", "+260967654321"), to("3", "260960000000")];
    let (ledger, db) = pay("agency", &["--lose", "1"], &payments).await;
    let mut paid: Vec<(u64, String, u64)> = ledger
        .as_object()
        .expect("a ledger")
        .values()
        .map(|entry| {
            let number = |name: &str| entry[name].as_u64().expect("a number");
            (number("amount"), entry["payee"].as_str().expect("a payee").to_owned(), number("executions"))
        })
        .collect();
    paid.sort();
    assert_eq!(paid, [(700, "0967654321".to_owned(), 1), (1050, "0961234567".to_owned(), 1)]);
    let mut states = states(&db).await;
    states.sort();
    assert_eq!(states, ["DISPATCHED yes DONE", "DISPATCHED yes DONE", "FAILED no NO_SUCH_PAYEE"]);
    let mut owner = db.connect(DbUser::Superuser).await;
    let names: Vec<String> =
        column(&mut owner, "select distinct name from symphony.payment_outbox_captures order by 1").await;
    assert_eq!(names, ["quote", "recipient", "transfer"]);
    let told: Vec<String> = column(
        &mut owner,
        "select distinct witness from symphony.payment_outbox_attempts where witness is not null and request_digest is not null
            and rail_digest is not null order by 1",
    )
    .await;
    assert!(
        told.iter().any(|witness| witness.ends_with("by_id headers 200")),
        "asked by the rail's own id: {told:?}"
    );
    assert!(
        told.iter().any(|witness| witness.ends_with("by_reference headers 200")),
        "and by the key where the id was lost: {told:?}"
    );
    assert!(
        told.iter().any(|witness| witness.contains("quote body 201, recipient body 201, transfer body")),
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recipient_that_is_not_the_instructed_one_is_never_paid_nor_kept() {
    let payment = json!({ "amount": "10.50", "currency": "ZMW", "destination": "260961234567" });
    let (ledger, db) = pay("agency", &["--mislead", "2"], &[payment]).await;
    let paid: Vec<&Value> =
        ledger.as_object().expect("a ledger").values().map(|entry| &entry["payee"]).collect();
    assert_eq!(paid, [&json!("0961234567")]);
    let mut owner = db.connect(DbUser::Superuser).await;
    let kept: Vec<String> = column(
        &mut owner,
        "select distinct value from symphony.payment_outbox_captures where name = 'recipient'",
    )
    .await;
    assert_eq!(kept, ["r-2"], "the first two were made with another number");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_that_moves_by_get_is_not_sent_again_blindly() {
    let to = |amount: &str| json!({ "amount": amount, "currency": "ZMW", "destination": "A1b2" });
    let (ledger, db) = pay("gateway", &["--lose", "2"], &[to("10.50"), to("0.01"), to("99")]).await;
    let amounts: Vec<u64> = ledger
        .as_object()
        .expect("a ledger")
        .values()
        .map(|entry| entry["amount"].as_u64().expect("a number"))
        .collect();
    assert_eq!(amounts.iter().sum::<u64>(), 1050 + 1 + 9900);
    assert!(ledger.as_object().expect("a ledger").values().all(|entry| entry["executions"] == 1), "{ledger}");
    assert_eq!(states(&db).await, ["DISPATCHED yes OK"; 3]);
    let mut owner = db.connect(DbUser::Superuser).await;
    let lost: i64 = scalar(
        &mut owner,
        "select count(*) from symphony.payment_outbox_attempts where error_code = 'OUTCOME_UNKNOWN'",
    )
    .await;
    assert_eq!(lost, 2, "bytes left by GET are maybe paid");
}

#[test]
fn the_suite_passes_each_without_a_rule_that_was_not_tested() {
    for rail in ["agency", "gateway", "switch"] {
        let tested = railhost()
            .args(["plugin", "test", env!("HABITS"), "--rail"])
            .arg(folder().join(format!("{rail}.toml")))
            .arg("--exchanges")
            .arg(folder().join("exchanges").join(rail))
            .output()
            .expect("railhost runs");
        let said = String::from_utf8_lossy(&tested.stdout);
        assert_eq!(tested.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&tested.stderr));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_is_recorded_without_secrets_and_judged_again() {
    let (simulator, folder) = (Simulator::start(&[]), tempfile::tempdir().expect("a folder"));
    let rail = folder.path().join("agency.toml");
    fs::write(&rail, rail_file("agency", &simulator, &folder)).expect("written");
    let recorded = folder.path().join("recorded");
    let payment = json!({ "amount": "10.50", "currency": "ZMW", "destination": "260961234567" });
    let done = railhost()
        .args(["plugin", "record", "--pause", "0", "--payment", &payment.to_string(), "--rail"])
        .arg(&rail)
        .arg("--out")
        .arg(&recorded)
        .output()
        .expect("railhost runs");
    assert!(done.status.success(), "{done:?}");
    let kept = ["disburse.json", "asked_1.json"]
        .map(|name| fs::read_to_string(recorded.join(name)).expect("a file"));
    assert!(
        kept[0].contains("\"class\": \"pending\"") && kept[1].contains("\"class\": \"success\""),
        "{kept:?}"
    );
    assert!(kept.iter().all(|text| !text.contains("habits-")), "a secret was kept: {kept:?}");
    let gossip = json!({ "amount": "666.00", "currency": "ZMW", "destination": "260961234567" });
    let told = folder.path().join("told");
    let done = railhost()
        .args(["plugin", "record", "--ask", "0", "--payment", &gossip.to_string(), "--rail"])
        .arg(&rail)
        .arg("--out")
        .arg(&told)
        .output()
        .expect("railhost runs");
    let said = format!("{done:?}{}", fs::read_to_string(told.join("disburse.json")).expect("a file"));
    assert!(said.contains("[secret] [secret] [secret]") && !said.contains("habits-"), "{said}");
    let replay = |rail: &Path| {
        let done = railhost()
            .args(["plugin", "replay", env!("HABITS"), "--rail"])
            .arg(rail)
            .arg("--exchanges")
            .arg(&recorded)
            .output()
            .expect("railhost runs");
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    assert_eq!(replay(&rail), (Some(0), "2 judged, 0 changed\n".to_owned()));
    let text = fs::read_to_string(&rail).expect("read");
    let other = folder.path().join("other.toml");
    fs::write(&other, text.replacen("\"DONE\"", "\"ENDED\"", 1)).expect("written");
    let (code, said) = replay(&other);
    assert!(code == Some(3) && said.starts_with("asked_1: ") && said.contains("(was Success DONE"), "{said}");
}

#[test]
fn an_approver_sees_also_what_stands_around_the_form() {
    let place = tempfile::tempdir().expect("a folder");
    let text = fs::read_to_string(folder().join("agency.toml")).expect("a rail file");
    let (old, new) = (place.path().join("old.toml"), place.path().join("new.toml"));
    fs::write(&old, &text).expect("written");
    for (from, to, line) in [
        (&"0".repeat(64), &"1".repeat(64), "~ sha256 = "),
        (&"AGENCY_CLIENT_ID".to_owned(), &"OTHER_ID".to_owned(), "~ secrets.client_id.env = \"OTHER_ID\""),
        (&"hmac-sha256".to_owned(), &"hmac-sha512".to_owned(), "~ keys.body.algorithm = "),
        (&"/expires_in".to_owned(), &"/ttl".to_owned(), "~ tokens.access.lifetime = "),
        (
            &"idempotent = true".to_owned(),
            &"idempotent = true\nprofile = \"inert\"".to_owned(),
            "+ profile = ",
        ),
        (
            &"minor = { ZMW = 100 }".to_owned(),
            &"minor = { ZMW = 1000 }".to_owned(),
            "~ amount.minor.ZMW = 1000",
        ),
    ] {
        assert!(text.contains(from.as_str()), "{from}");
        fs::write(&new, text.replacen(from.as_str(), to, 1)).expect("written");
        let shown = railhost()
            .args(["plugin", "form"])
            .arg(&new)
            .arg("--against")
            .arg(&old)
            .output()
            .expect("railhost runs");
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "{line}: {shown}");
    }
}
