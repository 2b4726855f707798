//! Text for people, and JSON for scripts. Nothing that is written here contains a control character.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{SecondsFormat, Utc};
use payment::{is_unsafe, plain};
use serde::Serialize;
use serde_json::json;

static SPEAKS_JSON: AtomicBool = AtomicBool::new(false);

/// From here on remarks are written as JSON, as the log's lines are.
pub fn speak_json(is_json: bool) {
    SPEAKS_JSON.store(is_json, Ordering::Relaxed);
}

fn speaks_json() -> bool {
    SPEAKS_JSON.load(Ordering::Relaxed)
}

/// A remark on what is going on, out of the way of the answer.
pub fn say(remark: &str) {
    remark_on("INFO", remark);
}

/// What went wrong.
pub fn complain(problem: &str) {
    remark_on("ERROR", problem);
}

fn remark_on(level: &str, remark: &str) {
    let line = match speaks_json() || asked_for_json() {
        // As log lines are written.
        true => {
            let at = Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true);
            escaped(
                &json!({ "timestamp": at, "level": level, "message": remark, "target": "railhost" })
                    .to_string(),
            )
        }
        false => plain_lines(remark),
    };
    // Nobody reads it: that is no reason to fail.
    writeln!(io::stderr().lock(), "{line}").ok();
}

/// What goes wrong before the arguments are understood is told as they ask for it all the same.
pub fn asked_for_json() -> bool {
    asks_for_json(env::args_os().skip(1), env::var_os("RAILHOST_LOG_FORMAT"))
}

fn asks_for_json(arguments: impl Iterator<Item = OsString>, otherwise: Option<OsString>) -> bool {
    let mut format = otherwise;
    let mut arguments = arguments.take_while(|argument| argument != "--");
    while let Some(argument) = arguments.next() {
        match argument.to_str().and_then(|argument| argument.strip_prefix("--log-format")) {
            Some("") => format = arguments.next(),
            Some(value) if value.starts_with('=') => format = Some(OsString::from(&value[1..])),
            _ => {}
        }
    }
    format.is_some_and(|format| format == "json")
}

/// The answer, on standard output. False if its reader is gone, as `head` goes after its lines.
pub fn out(text: &str) -> io::Result<bool> {
    write_out(plain_lines(text).as_bytes())
}

/// The answer as JSON, on a line of its own.
pub fn out_json(answer: &impl Serialize) -> io::Result<bool> {
    write_out((json_text(answer)? + "\n").as_bytes())
}

/// JSON that can be shown as it is.
pub fn json_text(answer: &impl Serialize) -> io::Result<String> {
    Ok(escaped(&serde_json::to_string(answer)?))
}

/// Bytes that are safe by themselves.
pub fn write_out(bytes: &[u8]) -> io::Result<bool> {
    let mut output = io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

fn plain_lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(plain).collect();
    lines.join("\n")
}

/// JSON that means the same and contains no unsafe character.
fn escaped(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for char in json.chars() {
        match is_unsafe(char) {
            // All of them have four hexadecimal digits.
            true => write!(safe, "\\u{:04x}", u32::from(char)).unwrap_or_default(),
            false => safe.push(char),
        }
    }
    safe
}

/// Columns under their headings; numbers to the right.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .chain([headings[column].len()])
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let numeric: Vec<bool> = (0..headings.len())
        .map(|column| {
            rows.iter().all(|row| row[column].chars().all(|c| c.is_ascii_digit() || ".-%".contains(c)))
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells
            .zip(&widths)
            .zip(&numeric)
            .map(
                |((cell, &width), &numeric)| {
                    if numeric { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
                },
            )
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut headings.iter().copied());
    for row in &rows {
        text += &line(&mut row.iter().map(|cell| &**cell));
    }
    text
}

/// An age or a duration, in the unit a person would say it in.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_not_understood_still_say_how_they_want_to_be_answered() {
        let asks = |arguments: &[&str], otherwise: Option<&str>| {
            asks_for_json(arguments.iter().map(OsString::from), otherwise.map(OsString::from))
        };
        assert!(asks(&["--log-format", "json", "frobnicate"], None));
        assert!(asks(&["frobnicate", "--log-format=json"], Some("text")));
        assert!(asks(&["frobnicate"], Some("json")));
        for text in
            [&["frobnicate"][..], &["--log-format"], &["--log-formatjson"], &["--", "--log-format=json"]]
        {
            assert!(!asks(text, None), "{text:?}");
        }
        assert!(!asks(&["--log-format", "text"], Some("json")));
    }

    #[test]
    fn a_table_aligns_words_left_and_numbers_right() {
        let text = table(
            &["rail", "pending"],
            &[vec!["mtn".into(), "7".into()], vec!["airtel".into(), "12".into()]],
        );
        assert_eq!(text, "rail    pending\nmtn           7\nairtel       12\n");
    }

    #[test]
    fn a_cell_cannot_break_its_table_or_speak_to_the_terminal() {
        let text = table(&["payee"], &[vec!["a\nb\u{1b}[2J".into()]]);
        assert_eq!(text, "payee\na\u{fffd}b\u{fffd}[2J\n");
    }

    #[test]
    fn json_keeps_its_meaning_and_loses_its_control_characters() {
        let answer = serde_json::json!({ "said": "\u{1b}[2J\u{202e}\u{9b}" });
        let text = escaped(&answer.to_string());
        assert!(!text.contains(is_unsafe), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), answer);
    }
}
