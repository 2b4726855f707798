//! Where lines come from, read ahead in a thread of their own: standard input may keep us waiting for ever, and the other work
//! must be able to end meanwhile.

use std::fs::{self, File, FileType};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::thread;

use tokio::sync::mpsc;

use super::Format;
use super::lines::{Line, Lines};
use crate::cli::{BadArgument, Missing};

/// Chunks that wait to be sent; more would only take memory.
const CHUNKS_AHEAD: usize = 2;

pub(super) struct Source {
    lines: Lines,
    bytes: Option<u64>,
}

/// Some lines, and how far the reading has come with them.
pub(super) struct Chunk {
    pub lines: Vec<Line>,
    pub bytes_read: u64,
}

impl Source {
    /// A regular file or `-`, with a header that makes sense.
    pub(super) fn open(path: &Path, format: Option<Format>) -> anyhow::Result<Self> {
        let shown = path.display();
        if path == Path::new("-") {
            let format = format.ok_or_else(|| {
                BadArgument("--file - is standard input, expected --format csv or --format jsonl".to_owned())
            })?;
            let lines = Lines::open(Box::new(BufReader::new(io::stdin())), format, &shown.to_string())?;
            return Ok(Self { lines, bytes: None });
        }
        let metadata =
            fs::metadata(path).map_err(|error| Missing(format!("cannot read {shown}: {error}")))?;
        if !metadata.is_file() {
            return Err(BadArgument(format!(
                "{shown} is {}, expected a regular file; --file - reads standard input",
                kind(metadata.file_type())
            ))
            .into());
        }
        let format = format.or_else(|| by_name(path)).ok_or_else(|| {
            BadArgument(format!("{shown}: expected a name that ends in .csv or .jsonl, or --format"))
        })?;
        let file = File::open(path).map_err(|error| Missing(format!("cannot read {shown}: {error}")))?;
        let reader: Box<dyn Read + Send> = Box::new(file);
        let lines = Lines::open(Box::new(BufReader::new(reader)), format, &shown.to_string())?;
        Ok(Self { lines, bytes: Some(metadata.len()) })
    }

    pub(super) fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Lines in chunks of this many. The last thing that comes may be the error that ended the reading.
    pub(super) fn read(mut self, chunk_lines: usize) -> io::Result<mpsc::Receiver<io::Result<Chunk>>> {
        let (send, receive) = mpsc::channel(CHUNKS_AHEAD);
        thread::Builder::new().name("lines".to_owned()).spawn(move || {
            loop {
                let read: io::Result<Vec<Line>> = self.lines.by_ref().take(chunk_lines).collect();
                let chunk = match read {
                    Ok(lines) if lines.is_empty() => break,
                    Ok(lines) => Ok(Chunk { lines, bytes_read: self.lines.bytes_read() }),
                    Err(error) => Err(error),
                };
                let is_last = chunk.is_err();
                if send.blocking_send(chunk).is_err() || is_last {
                    break;
                }
            }
        })?;
        Ok(receive)
    }
}

fn by_name(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()? {
        "csv" => Some(Format::Csv),
        "jsonl" | "ndjson" => Some(Format::Jsonl),
        _ => None,
    }
}

fn kind(file_type: FileType) -> &'static str {
    if file_type.is_dir() {
        "a folder"
    } else if file_type.is_fifo() {
        "a FIFO"
    } else if file_type.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}
