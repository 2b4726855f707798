//! Files of payments.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use dev::embedded::{Server, ServerOptions};
use harness::{Db, PATIENCE, Pg, scratch_folder};
use rustix::process::{Pid, Signal, kill_process};

use crate::{ConfigFolder, UNREACHABLE, count, text};

const HEADER: &str = "instruction_id,participant_id,rail_type,amount,currency,destination\n";

fn csv(lines: usize) -> String {
    let line = |n: usize| format!("i{n},p{},mock,{n}.10,ZMW,260971234567\n", n % 3);
    (0..lines).fold(HEADER.to_owned(), |file, n| file + &line(n))
}

/// Whether a line of a file is named with a word.
fn names(said: &str, line: u64, word: &str) -> bool {
    said.lines().any(|said| said.contains(&format!("payments.csv:{line}:")) && said.contains(word))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_goes_in_but_for_its_bad_lines_which_are_named_by_number_in_every_run() {
    let place = ConfigFolder::new(&Db::fresh(Pg::V18).await.url());
    let mut file = csv(20);
    file += "only,two\n";
    file += "i21,p1,unknown-rail,1,ZMW,260971234567\n";
    file += "i0,p0,mock,999.99,ZMW,another body\n";
    file += "i22,p1,mock,5.00,ZMW,260971234567\n";
    place.write("payments.csv", &file);
    for accepted in ["21 payment(s) accepted, 0 known already", "0 payment(s) accepted, 21 known already"] {
        let output = place.run(&["enqueue", "--file", "payments.csv"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(65), "{said}");
        for (line, word) in [(22, "fields"), (23, "unknown-rail"), (24, "key reused")] {
            assert!(names(&said, line, word), "{said}");
        }
        let told = text(&output.stdout);
        assert!(told.contains(&format!("{accepted}, 3 line(s) refused")), "{told}");
    }
    let again = place.json(&["enqueue", "--file", "payments.csv"]);
    assert_eq!((&again["accepted"], &again["replayed"]), (&0.into(), &21.into()));
    let lines: Vec<_> =
        again["refused"].as_array().expect("a list").iter().map(|line| &line["line"]).collect();
    assert_eq!(lines, [22, 23, 24]);
    let beside: Vec<_> = fs::read_dir(place.folder.path()).expect("a folder").collect();
    assert_eq!(beside.len(), 2, "nothing is kept beside the file: {beside:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_or_a_member_that_stands_twice_is_refused_by_name() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    place.write("twice.csv", &HEADER.replace("destination", "amount"));
    let output = place.run(&["enqueue", "--file", "twice.csv"]);
    assert_eq!(output.status.code(), Some(64));
    let said = text(&output.stderr);
    assert!(said.contains("twice.csv:1: column amount appears twice, as columns 4 and 6"), "{said}");

    let line = r#"{"instruction_id":"i","participant_id":"p","rail_type":"mock","payload":PAYLOAD}"#;
    let twice = r#"{"amount":"5.00","amount":"900.00","currency":"ZMW","destination":"260971234567"}"#;
    place.write("twice.jsonl", &format!("{}\n", line.replace("PAYLOAD", twice)));
    place.write(
        "cell.csv",
        &format!(
            "instruction_id,participant_id,rail_type,payload\ni,p,mock,\"{}\"\n",
            twice.replace('"', "\"\"")
        ),
    );
    for (file, word) in [
        ("twice.jsonl", "twice.jsonl:1: member \"amount\" of payload appears twice"),
        ("cell.csv", "cell.csv:2: payload: member \"amount\" appears twice"),
    ] {
        let output = place.run(&["enqueue", "--file", file]);
        assert_eq!(output.status.code(), Some(65), "{file}");
        assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
    }
    let one = ["enqueue", "--instruction", "i", "--participant", "p", "--rail", "mock", "--payload", twice];
    let output = place.run(&one);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("--payload: member \"amount\" appears twice"));
    assert_eq!(count(&db, "payment_outbox_records").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identifier_is_taken_as_written_or_refused_at_every_door() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let rest = "mock,1.00,ZMW,260971234567";
    place.write("payments.csv", &format!("{HEADER} i1,p,{rest}\ni2,p\t,{rest}\n\"i\u{7}3\",p,{rest}\n"));
    let output = place.run(&["enqueue", "--file", "payments.csv"]);
    let said = text(&output.stderr);
    for (line, problem) in [
        (2, "instruction_id: begins or ends with white space"),
        (3, "participant_id: begins or ends with white space"),
        (4, "instruction_id: contains a control character"),
    ] {
        assert!(names(&said, line, problem), "{said}");
    }
    let one = [
        "enqueue",
        "--instruction",
        "i1 ",
        "--participant",
        "p",
        "--rail",
        "mock",
        "--payload",
        crate::PAYLOAD,
    ];
    let output = place.run(&one);
    assert_eq!(output.status.code(), Some(65));
    assert!(text(&output.stderr).contains("instruction_id: begins or ends with white space"));
    assert_eq!(count(&db, "payment_outbox_records").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unbalanced_quote_is_named_where_it_opens_and_the_other_lines_go_in() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let mut lines: Vec<String> = csv(50).lines().map(str::to_owned).collect();
    lines[10] = lines[10].replace("260971234567", "\"260971234567");
    lines[30] = lines[30].replace("260971234567", "\"260971234567\"");
    place.write("payments.csv", &lines.join("\n"));
    let output = place.run(&["enqueue", "--file", "payments.csv"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(65), "{said}");
    assert!(names(&said, 11, "a quote opens here"), "{said}");
    assert_eq!(count(&db, "payment_outbox_records").await, 49, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_is_read_and_what_is_no_file_is_refused_by_name() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let mut child = place
        .command(&["enqueue", "--file", "-", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("railhost runs");
    child.stdin.take().expect("a pipe").write_all(csv(5).as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert!(text(&output.stdout).contains("5 payment(s) accepted"), "{}", text(&output.stdout));

    let nowhere = ConfigFolder::new(UNREACHABLE);
    let made = Command::new("mkfifo").arg(nowhere.folder.path().join("pipe.csv")).status().expect("mkfifo");
    assert!(made.success());
    fs::create_dir(nowhere.folder.path().join("folder.csv")).expect("a folder");
    for (file, word) in [
        ("pipe.csv", "pipe.csv is a FIFO, expected a regular file"),
        ("folder.csv", "folder.csv is a folder, expected a regular file"),
        ("/dev/null", "/dev/null is a device, expected a regular file"),
        ("-", "expected --format csv or --format jsonl"),
    ] {
        let output = nowhere.run(&["enqueue", "--file", file]);
        assert_eq!(output.status.code(), Some(64), "{file}");
        assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
    }
}

/// Whether a process has something to do with SIGINT, which is the second signal, besides dying of it.
fn catches_interrupts(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
    u64::from_str_radix(caught.trim(), 16).expect("a mask") & 0b10 != 0
}

#[test]
fn an_import_that_waits_for_its_first_line_ends_when_it_is_told_to() {
    let place = ConfigFolder::new(UNREACHABLE);
    for format in ["csv", "jsonl"] {
        let mut child = place
            .command(&["enqueue", "--file", "-", "--format", format])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("railhost runs");
        let began = Instant::now();
        while !catches_interrupts(child.id()) {
            assert!(began.elapsed() < PATIENCE, "{format}: it never listens for an interrupt");
            sleep(Duration::from_millis(10));
        }
        kill_process(Pid::from_child(&child), Signal::INT).expect("sent");
        let status = loop {
            match child.try_wait().expect("asked") {
                Some(status) => break status,
                None if began.elapsed() < PATIENCE => sleep(Duration::from_millis(10)),
                None => {
                    child.kill().expect("killed");
                    panic!("{format}: the interrupt was swallowed");
                }
            }
        };
        assert_eq!(status.code(), Some(1), "{format}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_waits_for_a_postgres_that_is_away() {
    let options = ServerOptions { major: Some(18), ..ServerOptions::throwaway(scratch_folder("waited-for")) };
    let mut server = Server::start(options).await.unwrap_or_else(|error| panic!("{error}"));
    let db = Db::on(Pg::V18, server.connect_options()).await;
    let place = ConfigFolder::new(&db.url());
    place.write("payments.csv", &csv(3));
    server.stop().await.expect("it stops");
    let mut child = place
        .command(&["enqueue", "--file", "payments.csv"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("railhost runs");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let first = said.next().expect("it says something").expect("read");
    assert!(first.contains("waiting up to 120 s for PostgreSQL"), "{first}");
    server.restart().await.expect("it is back");
    let rest: Vec<_> = said.map_while(Result::ok).collect();
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{rest:?}");
    assert_eq!(rest, Vec::<String>::new(), "it says once that it waits");
    assert_eq!(count(&db, "payment_outbox_records").await, 3);
}
