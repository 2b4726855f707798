//! Whether a secret shows anywhere: in tables, logs, metrics and recorded exchanges, in any spelling that somebody could read it from.

use std::fs;
use std::path::Path;

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use crate::sql::column;
use crate::world::World;
use crate::{Db, DbUser};

/// Shorter ones are found everywhere by chance.
const CHARS_MIN: usize = 8;

/// Texts that must not show, each under the name by which a leak is told.
#[derive(Debug, Default)]
pub struct Canaries {
    names: Vec<String>,
    spellings: Vec<Vec<u8>>,
}

impl Canaries {
    pub fn add(&mut self, name: &str, secret: &str) {
        if secret.chars().count() < CHARS_MIN {
            return;
        }
        let percent: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let escaped: String = secret.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let json = serde_json::to_string(secret).expect("a text");
        for spelling in [
            secret.to_owned(),
            json.trim_matches('"').to_owned(),
            json.trim_matches('"').replace('/', "\\/"),
            STANDARD.encode(secret),
            STANDARD_NO_PAD.encode(secret),
            URL_SAFE.encode(secret),
            URL_SAFE_NO_PAD.encode(secret),
            hex::encode(secret),
            hex::encode_upper(secret),
            percent,
            escaped,
        ] {
            self.names.push(name.to_owned());
            self.spellings.push(spelling.into_bytes());
        }
    }

    /// The secrets of the simulated rails, as their files have them, and every token that they gave out.
    pub fn of(world: &World, secrets: &Path) -> Self {
        let mut canaries = Self::default();
        for entry in fs::read_dir(secrets).expect("secrets").map(|entry| entry.expect("a file")) {
            let name = entry.file_name().to_string_lossy().into_owned();
            // Public keys may be known.
            if !name.ends_with(".pub.pem") {
                canaries.add(&name, fs::read_to_string(entry.path()).expect("a text").trim());
            }
        }
        for rail in &world.rails {
            for token in rail.simulator.tokens() {
                canaries.add(&format!("a token of {}", rail.name), &token);
            }
        }
        canaries
    }

    /// How many texts are looked for.
    pub fn len(&self) -> usize {
        self.spellings.len()
    }

    pub fn is_empty(&self) -> bool {
        self.spellings.is_empty()
    }

    /// Which of them are in these places, by name.
    pub fn found(&self, places: &[(String, Vec<u8>)]) -> Vec<String> {
        let all = AhoCorasick::new(&self.spellings).expect("a search");
        let mut found = Vec::new();
        for (place, bytes) in places {
            found.extend(all.find_iter(bytes).map(|hit| format!("{} in {place}", self.names[hit.pattern()])));
        }
        found.sort();
        found.dedup();
        found
    }
}

/// Every row of every table, as text.
pub async fn tables(db: &Db) -> Vec<(String, Vec<u8>)> {
    let mut owner = db.connect(DbUser::Superuser).await;
    let names: Vec<String> = column(
        &mut owner,
        "select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
          where n.nspname = 'symphony' and c.relkind in ('r', 'p') and not c.relispartition order by 1",
    )
    .await;
    let mut tables = Vec::new();
    for name in names {
        let rows: Vec<String> = column(&mut owner, &format!("select t::text from {name} t")).await;
        tables.push((name, rows.join("\n").into_bytes()));
    }
    tables
}

/// All files below a folder.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("a file")) {
        match entry.file_type().expect("a kind").is_dir() {
            true => all.extend(files(&entry.path())),
            false => all.push((entry.path().display().to_string(), fs::read(entry.path()).expect("read"))),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_in_every_spelling_and_told_by_its_name() {
        let mut canaries = Canaries::default();
        canaries.add("key", "s3cret/\"x\"");
        canaries.add("pin", "4711");
        assert_eq!(canaries.len(), 11, "a PIN is too short to be looked for");
        for spelling in canaries.spellings.clone() {
            let place = [b"before ".to_vec(), spelling, b" after".to_vec()].concat();
            assert_eq!(canaries.found(&[("log".to_owned(), place)]), ["key in log"]);
        }
        assert!(canaries.found(&[("log".to_owned(), b"s3cret x 4711".to_vec())]).is_empty());
    }
}
