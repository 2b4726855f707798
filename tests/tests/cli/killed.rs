//! A long file under kills and restarts.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use dev::embedded::{Server, ServerOptions};
use harness::{Db, DbUser, PATIENCE, Pg, scratch_folder};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::{ConfigFolder, count};

const LINES: usize = 100_000;
const BAD: usize = 50;
const KILLS: usize = 20;
/// In the run of these kills PostgreSQL restarts.
const RESTARTS: [usize; 2] = [6, 13];

/// The file, and the numbers of its bad lines.
fn file() -> (String, Vec<u64>) {
    let mut file = "instruction_id,participant_id,rail_type,amount,currency,destination\n".to_owned();
    let mut bad = Vec::new();
    for n in 0..LINES {
        let good = format!("i{n},p{},mock,{}.10,ZMW,260971234567", n % 7, n + 1);
        let line = if n % (LINES / BAD) == 777 {
            bad.push(n as u64 + 2);
            match bad.len() % 5 {
                0 => good.replace(",ZMW", ""),
                1 => good.replace("mock", "mokc"),
                2 => good.replace(".10", ".105"),
                3 => format!(" {good}"),
                _ => good.replace("260971234567", "\"260971234567"),
            }
        } else {
            good
        };
        file += &line;
        file.push('\n');
    }
    (file, bad)
}

/// How many payments have a number, which is cheaper than to count them.
async fn accepted(db: &Db) -> i64 {
    let mut owner = db.connect(DbUser::Superuser).await;
    sqlx::query_scalar(
        "select coalesce(sum(next_sequence_id - 1), 0)::bigint from symphony.participant_outbox_sequences",
    )
    .fetch_one(&mut owner)
    .await
    .expect("counted")
}

async fn instructions(db: &Db) -> i64 {
    let mut owner = db.connect(DbUser::Superuser).await;
    sqlx::query_scalar("select count(distinct instruction_id) from symphony.payment_outbox_pending")
        .fetch_one(&mut owner)
        .await
        .expect("counted")
}

fn start(place: &ConfigFolder) -> Child {
    place
        .command(&["enqueue", "--file", "payments.csv", "--unchecked"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("railhost runs")
}

/// Kills the run as soon as so many payments are accepted.
async fn kill_at(db: &Db, child: &mut Child, wanted: i64) {
    let began = Instant::now();
    while accepted(db).await < wanted {
        assert!(began.elapsed() < PATIENCE, "the run does not get on");
        if let Some(status) = child.try_wait().expect("asked") {
            assert_eq!(status.code(), Some(65), "a run that ends by itself says that lines were refused");
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

fn refused_lines(answer: &Value) -> Vec<u64> {
    let lines = answer["refused"].as_array().expect("a list");
    lines.iter().map(|refused| refused["line"].as_u64().expect("a number")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_file_under_kills_and_restarts_has_every_good_line_once_and_every_bad_one_named() {
    let options =
        ServerOptions { major: Some(18), ..ServerOptions::throwaway(scratch_folder("killed-import")) };
    let mut server = Server::start(options).await.unwrap_or_else(|error| panic!("{error}"));
    let db = Db::on(Pg::V18, server.connect_options()).await;
    let place = ConfigFolder::new(&db.url());
    let (file, bad) = file();
    assert_eq!(bad.len(), BAD);
    place.write("payments.csv", &file);
    let good = (LINES - BAD) as i64;

    let mut random = fastrand::Rng::with_seed(20_260_503);
    let mut moments: Vec<i64> = (0..KILLS).map(|_| random.i64(1..good)).collect();
    moments.sort_unstable();
    for (kill, moment) in moments.into_iter().enumerate() {
        let mut child = start(&place);
        if RESTARTS.contains(&kill) {
            server.restart().await.expect("it is back");
        }
        kill_at(&db, &mut child, moment).await;
    }

    let run = ["enqueue", "--file", "payments.csv", "--unchecked"];
    for _ in 0..2 {
        let output = place.run(&[&run[..], &["--json"]].concat());
        assert_eq!(output.status.code(), Some(65));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(refused_lines(&answer), bad);
        let known = answer["accepted"].as_i64().zip(answer["replayed"].as_i64());
        assert_eq!(known.map(|(new, old)| new + old), Some(good));
    }
    assert_eq!(count(&db, "payment_outbox_records").await, good);
    assert_eq!(accepted(&db).await, good);
    assert_eq!(instructions(&db).await, good);
    assert_eq!(place.json(&["gaps"])["gaps"], json!([]));

    let other = another_database(&server).await;
    // From the same folder, with whatever the runs before may have left there.
    let output = place
        .command(&[&run[..], &["--json"]].concat())
        .env("DATABASE_URL", other.url())
        .output()
        .expect("railhost runs");
    assert_eq!(output.status.code(), Some(65));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["accepted"].as_i64(), Some(good), "nothing is skipped there");
    assert_eq!(refused_lines(&answer), bad);
}

async fn another_database(server: &Server) -> Db {
    let options = server.connect_options();
    let mut connection = PgConnection::connect_with(&options).await.expect("connected");
    sqlx::query("create database other").execute(&mut connection).await.expect("made");
    connection.close().await.expect("closed");
    Db::on(Pg::V18, options.database("other")).await
}
