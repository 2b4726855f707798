use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// How far a run has come, kept beside the file until it is through.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Of the whole file: another content begins again.
    sha256: String,
    pub(super) records_done: u64,
    #[serde(skip)]
    note: PathBuf,
}

impl Progress {
    pub(super) fn load(file: &Path, sha256: &str) -> Self {
        let mut note = file.as_os_str().to_owned();
        note.push(".progress");
        let note = PathBuf::from(note);
        let earlier = fs::read(&note).ok().and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        match earlier {
            Some(earlier) if earlier.sha256 == sha256 => Self { note, ..earlier },
            _ => Self { sha256: sha256.to_owned(), records_done: 0, note },
        }
    }

    /// Written aside and renamed: a half-written note would only cost time, but nobody should have to wonder about it.
    pub(super) fn save(&self) -> io::Result<()> {
        let aside = self.note.with_extension("progress.new");
        fs::write(&aside, serde_json::to_vec(self)?)?;
        fs::rename(aside, &self.note)
    }

    pub(super) fn remove(self) -> io::Result<()> {
        match fs::remove_file(&self.note) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
