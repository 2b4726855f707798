//! Records of a CSV file, strictly by RFC 4180: a quote opens a cell at its beginning and closes it at its end, or the record
//! is refused. A reader that guesses would take the rest of the file for one cell.

use std::io;

use super::physical::{PhysicalLine, PhysicalLines};

/// A cell of more lines is taken for one whose closing quote is missing.
const RECORD_LINES_MAX: usize = 200;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct CsvRecord {
    /// Where it begins, or where the quote opens that spoils it.
    pub line: u64,
    /// Where it ends.
    pub last_line: u64,
    pub cells: Result<Vec<String>, String>,
}

/// What is left to read of a record.
enum CellState {
    /// At the beginning of a cell.
    Start,
    Unquoted,
    Quoted,
    /// After a closing quote.
    Closed,
}

/// A record that is being read.
struct RecordReader {
    cells: Vec<String>,
    cell: String,
    state: CellState,
    /// The line of the last quote that opened.
    opened: u64,
}

/// The next record that is not an empty line. After a quote that is never closed the reading goes on with the line after it.
pub(super) fn next_record(lines: &mut PhysicalLines) -> io::Result<Option<CsvRecord>> {
    let first = loop {
        match lines.next()? {
            Some(line) if line.text() == Ok("") => {}
            Some(line) => break line,
            None => return Ok(None),
        }
    };
    let begins = first.number;
    let mut reading =
        RecordReader { cells: Vec::new(), cell: String::new(), state: CellState::Start, opened: begins };
    let mut taken = vec![first];
    loop {
        let line = &taken[taken.len() - 1];
        let last_line = line.number;
        let problem = match line.text().and_then(|text| reading.take(text, line.number)) {
            Err(problem) => problem,
            Ok(()) if !matches!(reading.state, CellState::Quoted) => {
                reading.end_cell();
                return Ok(Some(CsvRecord { line: begins, last_line, cells: Ok(reading.cells) }));
            }
            Ok(()) => {
                reading.cell.push_str(line.end());
                match lines.next()? {
                    Some(line) if taken.len() < RECORD_LINES_MAX => {
                        taken.push(line);
                        continue;
                    }
                    next => {
                        taken.extend(next);
                        "a quote opens here and is never closed".to_owned()
                    }
                }
            }
        };
        return Ok(Some(spoilt(lines, taken, reading.opened, problem)));
    }
}

/// Lines after the one with the bad quote stand for themselves.
fn spoilt(
    lines: &mut PhysicalLines,
    mut taken: Vec<PhysicalLine>,
    opened: u64,
    problem: String,
) -> CsvRecord {
    let begins = taken[0].number;
    let own = taken.iter().take_while(|line| line.number <= opened).count();
    lines.give_back(taken.split_off(own));
    let whole =
        if begins == opened { String::new() } else { format!("; the record begins on line {begins}") };
    CsvRecord { line: opened, last_line: opened, cells: Err(problem + &whole) }
}

impl RecordReader {
    fn take(&mut self, text: &str, number: u64) -> Result<(), String> {
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            match (&self.state, char) {
                (CellState::Start, '"') => {
                    self.state = CellState::Quoted;
                    self.opened = number;
                }
                (CellState::Quoted, '"') if chars.peek() == Some(&'"') => {
                    chars.next();
                    self.cell.push('"');
                }
                (CellState::Quoted, '"') => self.state = CellState::Closed,
                (CellState::Quoted, other) => self.cell.push(other),
                (_, ',') => self.end_cell(),
                (CellState::Closed, _) if self.opened == number => {
                    return Err("a quote is closed before the end of its cell".to_owned());
                }
                (CellState::Closed, _) => {
                    return Err(format!("a quote opens here and is closed in the middle of line {number}"));
                }
                (_, '"') => {
                    self.opened = number;
                    return Err(
                        "a quote stands in the middle of a cell that does not begin with one".to_owned()
                    );
                }
                (_, other) => {
                    self.state = CellState::Unquoted;
                    self.cell.push(other);
                }
            }
        }
        Ok(())
    }

    fn end_cell(&mut self) {
        self.cells.push(std::mem::take(&mut self.cell));
        self.state = CellState::Start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str) -> Vec<(u64, Result<Vec<String>, String>)> {
        let mut lines = PhysicalLines::new(Box::new(io::Cursor::new(file.to_owned().into_bytes())));
        let mut records = Vec::new();
        while let Some(record) = next_record(&mut lines).expect("read") {
            records.push((record.line, record.cells));
        }
        records
    }

    fn cells(cells: &[&str]) -> Result<Vec<String>, String> {
        Ok(cells.iter().map(|&cell| cell.to_owned()).collect())
    }

    #[test]
    fn cells_are_taken_as_written() {
        assert_eq!(
            read("a,b,c\r\n\n\" x \",\"say \"\"hi\"\", all\", z \n,,\n\"two\nlines\",b,c"),
            [
                (1, cells(&["a", "b", "c"])),
                (3, cells(&[" x ", "say \"hi\", all", " z "])),
                (4, cells(&["", "", ""])),
                (5, cells(&["two\nlines", "b", "c"])),
            ]
        );
    }

    #[test]
    fn a_quote_that_is_never_closed_costs_its_own_line_only() {
        let read = read("a,b\n1,\"x\n2,y\n3,z\n");
        let named: Vec<_> = read.iter().map(|(line, cells)| (*line, cells.is_ok())).collect();
        assert_eq!(named, [(1, true), (2, false), (3, true), (4, true)]);
        assert_eq!(read[1].1, Err("a quote opens here and is never closed".to_owned()));
    }

    #[test]
    fn a_quote_that_the_next_quoted_cell_seems_to_close_is_named_where_it_opens() {
        let read = read("a,b\n1,\"x\n2,\"y\"\n3,\"z\"\n");
        assert_eq!(
            read[1],
            (2, Err("a quote opens here and is closed in the middle of line 3".to_owned())),
            "{read:?}"
        );
        assert_eq!(read[2..], [(3, cells(&["2", "y"])), (4, cells(&["3", "z"]))]);
    }

    #[test]
    fn quotes_within_a_line_that_make_no_sense_cost_that_line() {
        let read = read("6\" pipe,b\n\"x\"y,b\nc,d\n");
        assert!(read[0].1.is_err() && read[1].1.is_err(), "{read:?}");
        assert_eq!(read[2], (3, cells(&["c", "d"])));
    }

    #[test]
    fn many_open_quotes_are_no_reason_to_read_the_file_again_and_again() {
        let file = "1,\"x\n".repeat(3000);
        let read = read(&file);
        assert_eq!(read.len(), 3000);
        assert!(read.iter().all(|(_, cells)| cells.is_err()));
    }
}
