//! The lines of a file as they stand in it.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};

/// More than any payment needs: the database takes payloads of 64 KiB.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// A line with its end, as it was written.
#[derive(Debug, Clone)]
pub(super) struct PhysicalLine {
    /// From 1.
    pub number: u64,
    /// None if it is too long to be looked at.
    pub bytes: Option<Vec<u8>>,
}

pub(super) struct PhysicalLines {
    reader: Box<dyn BufRead + Send>,
    number: u64,
    bytes_read: u64,
    /// Read before and to be read again.
    again: VecDeque<PhysicalLine>,
}

impl PhysicalLines {
    pub(super) fn new(reader: Box<dyn BufRead + Send>) -> Self {
        Self { reader, number: 0, bytes_read: 0, again: VecDeque::new() }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Gives lines back, to be read as if for the first time.
    pub(super) fn give_back(&mut self, lines: Vec<PhysicalLine>) {
        for line in lines.into_iter().rev() {
            self.again.push_front(line);
        }
    }

    pub(super) fn next(&mut self) -> io::Result<Option<PhysicalLine>> {
        if let Some(line) = self.again.pop_front() {
            return Ok(Some(line));
        }
        let mut bytes = Vec::new();
        self.bytes_read += self.reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)? as u64;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if self.number == 1 && bytes.starts_with(b"\xef\xbb\xbf") {
            // Spreadsheets mark UTF-8 so; it is no part of the first name.
            bytes.drain(..3);
        }
        let mut line = PhysicalLine { number: self.number, bytes: Some(bytes) };
        if line.is_cut() {
            self.bytes_read += self.skip_line()?;
            line.bytes = None;
        }
        Ok(Some(line))
    }

    fn skip_line(&mut self) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let buffered = self.reader.fill_buf()?;
            let (length, done) = match buffered.iter().position(|byte| *byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (buffered.len(), buffered.is_empty()),
            };
            self.reader.consume(length);
            skipped += length as u64;
            if done {
                return Ok(skipped);
            }
        }
    }
}

impl PhysicalLine {
    /// Its text without its end, or what is wrong with it.
    pub(super) fn text(&self) -> Result<&str, String> {
        let bytes = self.bytes.as_deref().ok_or_else(Self::too_long)?;
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        std::str::from_utf8(bytes).map_err(|_| "the line is not valid UTF-8".to_owned())
    }

    /// As it was written.
    pub(super) fn end(&self) -> &'static str {
        match self.bytes.as_deref() {
            Some(bytes) if bytes.ends_with(b"\r\n") => "\r\n",
            Some(bytes) if bytes.ends_with(b"\n") => "\n",
            _ => "",
        }
    }

    fn is_cut(&self) -> bool {
        self.bytes
            .as_ref()
            .is_some_and(|bytes| bytes.len() as u64 >= LINE_BYTES_MAX && !bytes.ends_with(b"\n"))
    }

    fn too_long() -> String {
        format!("the line is longer than {LINE_BYTES_MAX} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_leaves_the_others_alone() {
        let mut file = b"\xef\xbb\xbfone\r\n".to_vec();
        file.extend(vec![b'x'; 3 << 20]);
        file.extend(b"\nthree\n\xff\n");
        let mut lines = PhysicalLines::new(Box::new(io::Cursor::new(file.clone())));
        let mut next = || lines.next().expect("read").map(|line| line.text().map(str::to_owned));
        assert_eq!(next(), Some(Ok("one".to_owned())));
        assert!(next().expect("a line").expect_err("too long").contains("longer than"));
        assert_eq!(next(), Some(Ok("three".to_owned())));
        assert!(next().expect("a line").expect_err("no UTF-8").contains("UTF-8"));
        assert_eq!(next(), None);
        assert_eq!(lines.bytes_read(), file.len() as u64);
    }
}
