//! Reading the files of a rail. Only regular ones: a FIFO would hold the host up, and to open a device may do something.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// For rail files, secrets, keys and certificates. A bundle of all public authorities has 250 KiB.
pub(super) const SMALL_BYTES_MAX: u64 = 1024 * 1024;

pub(super) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let expected = usize::try_from(file.metadata()?.len().min(bytes_max)).map_err(io::Error::other)?;
    // Room for all of it at once: one that grows as it is filled takes up to three times as much.
    let mut bytes = Vec::with_capacity(expected + 1);
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(io::Error::other(format!("it has more than {bytes_max} bytes"))),
        false => Ok(bytes),
    }
}

pub(super) fn open(path: &Path) -> io::Result<File> {
    expect_regular(fs::metadata(path)?.file_type())?;
    // What was looked at may have been replaced before it was opened: nothing is waited for, and it is looked at again.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    expect_regular(file.metadata()?.file_type())?;
    Ok(file)
}

pub(super) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path, SMALL_BYTES_MAX)?).map_err(|_| io::Error::other("it is not valid UTF-8"))
}

pub(super) fn expect_regular(found: FileType) -> io::Result<()> {
    let what = match found {
        regular if regular.is_file() => return Ok(()),
        folder if folder.is_dir() => "a folder",
        fifo if fifo.is_fifo() => "a FIFO",
        socket if socket.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::other(format!("it is {what}, expected a regular file")))
}
