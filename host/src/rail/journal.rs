//! What an adapter wrote: log lines, standard output and error. Bounded, cleaned of secrets and of control characters.

use crate::payment::plain;

use super::egress::fill::{Veil, scrub_text};

/// One line, safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub level: tracing::Level,
    pub message: String,
    pub fields: Vec<(String, String)>,
}

/// The lines of one call.
#[derive(Debug)]
pub(super) struct Journal {
    lines: Vec<Line>,
    bytes_left: usize,
    /// Lines that no longer found room.
    dropped: usize,
}

/// Also for a line that the guest made of nothing: it costs the host something.
const LINE_BYTES_MIN: usize = 16;

impl Journal {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { lines: Vec::new(), bytes_left: bytes_max, dropped: 0 }
    }

    pub(super) fn write(
        &mut self,
        level: tracing::Level,
        message: &str,
        fields: &[(String, String)],
        veils: &[&Veil],
    ) {
        let size = message.len() + fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        let size = size.max(LINE_BYTES_MIN);
        if size > self.bytes_left {
            self.dropped += 1;
            return;
        }
        self.bytes_left -= size;
        // Text of a stranger is data: nothing in it may move a terminal's cursor or begin a new line.
        let clean = |text: &str| plain(&scrub_text(text, veils)).into_owned();
        let fields = fields.iter().map(|(name, value)| (clean(name), clean(value))).collect();
        self.lines.push(Line { level, message: clean(message), fields });
    }

    /// All lines, and a last one that says how many are missing.
    pub(super) fn finish(mut self) -> Vec<Line> {
        if self.dropped > 0 {
            let message =
                format!("{} more lines were dropped: the limit of one call was reached", self.dropped);
            self.lines.push(Line { level: tracing::Level::WARN, message, fields: Vec::new() });
        }
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn lines_are_bounded_and_harmless() {
        let secret = Veil::over([&"hunter22".to_owned().into()]);
        let mut journal = Journal::new(100);
        journal.write(
            Level::INFO,
            "pass\u{1b}[31m hunter22\n",
            &[("k".into(), "hunter22".into())],
            &[&secret],
        );
        for _ in 0..50 {
            journal.write(Level::INFO, "", &[], &[]);
        }
        let lines = journal.finish();
        assert_eq!(lines[0].message, "pass\u{fffd}[31m [secret]\u{fffd}");
        assert_eq!(lines[0].fields, [("k".to_owned(), "[secret]".to_owned())]);
        assert!(lines.len() < 10);
        assert!(lines.last().expect("a last one").message.contains("more lines were dropped"));
    }
}
