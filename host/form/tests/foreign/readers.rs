//! Readers of other makers, each in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

pub(crate) struct Reader {
    process: Child,
    answers: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Reader {
    fn start(command: &mut Command) -> Self {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.unwrap_or_else(|error| not_run(&format!("{command:?}: {error}")));
        let answers = BufReader::new(process.stdout.take().expect("its output")).lines();
        Self { process, answers }
    }

    pub(crate) fn read(&mut self, request: &Value) -> Value {
        let line = format!("{request}\n");
        let sent = self.process.stdin.as_mut().expect("its input").write_all(line.as_bytes());
        match (sent, self.answers.next()) {
            (Ok(()), Some(Ok(answer))) => serde_json::from_str(&answer).expect("an answer"),
            _ => not_run("a reader ended: libxml2 cannot be had, or it failed"),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn not_run(why: &str) -> ! {
    println!("NOT RUN: foreign readers: {why}");
    panic!("NOT RUN: foreign readers: {why}");
}

pub(crate) fn readers() -> [Reader; 2] {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign");
    let tools: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/foreign");
    let python = Reader::start(
        Command::new("python3").arg(folder.join("readers.py")).arg(tools).env("PYTHONDONTWRITEBYTECODE", "1"),
    );
    [python, Reader::start(Command::new("node").arg(folder.join("readers.mjs")))]
}
