//! A rail whose adapter loops, one whose adapter traps, one that eats memory and one that lies, beside an honest one: through a
//! real host process, its pages and PostgreSQL.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use harness::adapter_rig::{AdapterRig, guest};
use harness::host::enqueue_as;
use harness::port::Port;
use harness::sql::{column, scalar};
use harness::{Db, DbUser, PATIENCE, Pg, railhost};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const BAD: [&str; 4] = ["endless_loop", "panics", "memory_bomb", "reads_opposite"];
const HONEST: &str = "pays_and_tells";
const EACH: usize = 60;

/// A test that fails leaves no host behind.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The status line of a page.
async fn page(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await.ok()?;
    page.lines().next().map(ToOwned::to_owned)
}

fn payment() -> Value {
    json!({ "amount": "10.00", "currency": "ZMW", "destination": "260961234567" })
}

fn write_config(rig: &AdapterRig, pages: &Port) {
    fs::create_dir_all(rig.path("config")).expect("a folder");
    let config = format!(
        "rails = {:?}\n[relayer]\nlisten = \"127.0.0.1:{}\"\n[adapters]\ncache = {:?}\n",
        rig.path("rails"),
        pages.number,
        rig.path("compiled"),
    );
    fs::write(rig.path("config/development.toml"), config).expect("written");
}

/// A host of the rig's rails, on an empty database.
fn serve(db: &Db, rig: &AdapterRig) -> Served {
    let command = |name: &str| {
        let mut command = railhost();
        command.current_dir(rig.path(".")).env("DATABASE_URL", db.url()).arg(name);
        command
    };
    let told = command("migrate").output().expect("railhost runs");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    Served(command("serve").stderr(Stdio::null()).spawn().expect("railhost runs"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adapters_that_loop_trap_bloat_and_lie_break_nothing_but_themselves() {
    let (db, rig, pages) = (Db::fresh(Pg::V18).await, AdapterRig::new().await, Port::reserve());
    for name in BAD.into_iter().chain([HONEST]) {
        // Two of a participant's payments are lied about before the rail is stopped: what is not sent then stays unsent.
        rig.put_rail(name, &guest(name), |text| format!("limits = {{ cpu_ms = 1000 }}\n{text}"));
    }
    write_config(&rig, &pages);
    let _host = serve(&db, &rig);
    let began = Instant::now();
    while page(pages.number, "/readyz").await.is_none_or(|line| !line.contains(" 200 ")) {
        assert!(began.elapsed() < PATIENCE, "it is not ready");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The bad ones first: they are at work when the honest one's payments come.
    for name in BAD {
        for participant in 0..3 {
            enqueue_as(&db, &format!("{name}-{participant}"), name, &vec![payment(); EACH / 3]).await;
        }
    }
    enqueue_as(&db, HONEST, HONEST, &vec![payment(); EACH]).await;
    let mut owner = db.connect(DbUser::Superuser).await;
    let paid = format!(
        "select count(*) from symphony.payment_outbox_attempts where rail_type = '{HONEST}' and state = 'DISPATCHED'"
    );
    let mut seen = BTreeSet::new();
    loop {
        // Once at least, however quick the honest rail is.
        seen.insert(page(pages.number, "/readyz").await);
        if scalar::<i64>(&mut owner, &paid).await == EACH as i64 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "the honest rail is held up");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [Some("HTTP/1.1 200 OK".to_owned())]);
    // Each within its deadline: at the first attempt, and no lease ran out.
    let attempts: Vec<i32> = column(
        &mut owner,
        &format!(
            "select distinct attempt_no from symphony.payment_outbox_attempts where rail_type = '{HONEST}'"
        ),
    )
    .await;
    assert_eq!(attempts, [1]);
    let claimed: Vec<String> = column(
        &mut owner,
        "select distinct rail_type || ' ' || state || ' ' || money_moved from symphony.payment_outbox_attempts
          where state = 'DISPATCHED' or money_moved = 'yes' order by 1",
    )
    .await;
    assert_eq!(claimed, [format!("{HONEST} DISPATCHED yes")], "no lie became a payment");
}
