//! Where lines come from, read ahead in a thread of their own: standard input may keep us waiting for ever, and the other work
//! must be able to end meanwhile.

use std::fs::{self, File, FileType};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::thread;

use anyhow::Context;
use tokio::sync::mpsc;

use super::format::Format;
use super::lines::{ImportLine, Lines};
use terminal::{BadArgument, Missing};

/// Chunks that wait to be sent; more would only take memory.
const CHUNKS_AHEAD: usize = 2;

pub(super) struct Source {
    reader: Box<dyn BufRead + Send>,
    format: Format,
    /// What it is called in a message.
    name: String,
    bytes: Option<u64>,
}

/// Some lines, and how far the reading has come with them.
pub(super) struct Chunk {
    pub lines: Vec<ImportLine>,
    pub bytes_read: u64,
}

impl Source {
    /// A regular file or `-`, of which nothing is read yet.
    pub(super) fn open(path: &Path, format: Option<Format>) -> anyhow::Result<Self> {
        let shown = path.display();
        let name = shown.to_string();
        if path == Path::new("-") {
            let format = format.ok_or_else(|| {
                BadArgument("--file - is standard input, expected --format csv or --format jsonl".to_owned())
            })?;
            return Ok(Self { reader: Box::new(BufReader::new(io::stdin())), format, name, bytes: None });
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
        Ok(Self { reader: Box::new(BufReader::new(file)), format, name, bytes: Some(metadata.len()) })
    }

    pub(super) fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Lines in chunks of this many. The last thing that comes may be the error that ended the reading, be it that the header
    /// makes no sense.
    pub(super) fn read(self, chunk_lines: usize) -> io::Result<mpsc::Receiver<anyhow::Result<Chunk>>> {
        let (send, receive) = mpsc::channel(CHUNKS_AHEAD);
        let read = move || {
            if let Err(error) = self.send_chunks(chunk_lines, &send) {
                // Nobody waits for it where the other work has ended.
                send.blocking_send(Err(error)).ok();
            }
        };
        thread::Builder::new().name("lines".to_owned()).spawn(read)?;
        Ok(receive)
    }

    /// Until the end, or until nobody takes them.
    fn send_chunks(
        self,
        chunk_lines: usize,
        send: &mpsc::Sender<anyhow::Result<Chunk>>,
    ) -> anyhow::Result<()> {
        let mut lines = Lines::open(self.reader, self.format, &self.name)?;
        loop {
            let read: io::Result<Vec<ImportLine>> = lines.by_ref().take(chunk_lines).collect();
            let read = read.with_context(|| format!("cannot read {}", self.name))?;
            let chunk = Chunk { lines: read, bytes_read: lines.bytes_read() };
            if chunk.lines.is_empty() || send.blocking_send(Ok(chunk)).is_err() {
                return Ok(());
            }
        }
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
