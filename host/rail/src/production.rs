//! What is good for development only, and refused where money is real: at the start and at every later load alike.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use secrecy::ExposeSecret;

use super::definition::{BUILTIN, Definition, RailKind, Secrecy};
use super::error::LoadError;
use super::gate::address::Reach;
use super::sandbox::Sandbox;
use verdict::digest::Digest;

/// Judges the recorded exchanges that a rail file names, by this component and this file. The error says which of them comes to
/// something else than was approved.
pub type Examine = for<'e> fn(&'e Sandbox, &'e Definition) -> BoxFuture<'e, Result<(), LoadError>>;

/// What a rail must keep to besides being sound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    pub production: bool,
    /// Attempts come with their exchanges.
    pub recorded: bool,
    pub examine: Option<Examine>,
}

/// SHA-256 of the secrets and keys that come with the simulators, which everybody knows; spaces and line ends are left out.
const KNOWN: [&str; 10] = [
    "6f287c106c488f0a556cb3304a4fa2408881222a6b9dfe82c91f7cf1d99aac81", // airtel.pub.pem
    "da2125284cfdb3c698c9d331d12a03496f4be3017f88800d4783e97c910f4c9c", // airtel_2048.pub.pem
    "949a329d183a552349d64667715ee2d395ce19560a71bf6b52ef3f68372c44dc", // airtel_client_id
    "6390fd613fba001290c85823fb55f13fb89fe7c2af8660e001c4fc5b4b6b1c95", // airtel_client_secret
    "de650d61f5bd166a91f8ccec3158297db18b9d50eaedca238cd29dc3a214a916", // airtel_pin
    "f7be2b162737577a1462e89c7a1622c16f626e20e0bda1e0a4da5f2b9e21d001", // bank_api_key
    "4c39fb782cad5fd68f5712e28407d86b96939bbd3201d175751c897d02c52981", // callback_key
    "69efe726efd42cac2b05ec3502b539730f265398da17403b2d9b6bc676f8bfee", // mtn_api_key
    "d7366d26f22cc80485f3d5c44f273ef5bb3b3e1b6a8e5f2d2b10478cfe1b2d39", // mtn_api_user
    "c2b7f1c0fa0da0f37a1aacbb90abc5b816258b30d2aafb96dbb3bafe9054b97a", // mtn_subscription_key
];

impl Definition {
    /// Why a production host does not take this rail, if it does not.
    pub fn refused_in_production(&self) -> Option<String> {
        let problem = self.mock_problem().or_else(|| self.known_problem()).or_else(|| self.mode_problem())?;
        Some(format!("{problem}: production is true"))
    }

    fn mock_problem(&self) -> Option<String> {
        let file = &self.file;
        if file.kind == RailKind::Mock {
            return Some("kind is mock, expected live".to_owned());
        }
        if file.component.starts_with(BUILTIN) {
            return Some("component is built in, expected a file and its sha256".to_owned());
        }
        if file.network.reach == Reach::Loopback {
            return Some(
                "network.reach is loopback, where simulators are, expected public or private".to_owned(),
            );
        }
        if file.signature.is_none() {
            return Some(
                "signature is missing, expected one over component and rail file: railhost plugin sign"
                    .to_owned(),
            );
        }
        let requests = self.form.steps().filter_map(|step| step.request.as_ref());
        let is_plain = requests.into_iter().any(|request| request.target.scheme == "http");
        is_plain.then(|| "base is plain http, expected https".to_owned())
    }

    /// By its value: a copy under another name is as well known.
    fn known_problem(&self) -> Option<String> {
        let known = |source| {
            let value = self.read("", source).ok()?;
            let bare: String = value.expose_secret().split_ascii_whitespace().collect();
            KNOWN.contains(&Digest::of(bare.as_bytes()).to_string().as_str()).then_some(())
        };
        let (key, ..) = self.sources().into_iter().find(|(_, source, _)| known(source).is_some())?;
        Some(format!("{key} is the simulator's published secret; set your own"))
    }

    /// A value in a file that others may read is not a secret, and what others may write is not the operator's.
    fn mode_problem(&self) -> Option<String> {
        self.all_files().into_iter().find_map(|(key, path, secrecy)| {
            let mode = fs::metadata(&path).ok()?.mode() & 0o777;
            let (open_to_others, what, expected) = match secrecy {
                Secrecy::Secret => (mode & 0o077, "is open to group or others", "0600 or 0400"),
                Secrecy::Public => (mode & 0o022, "may be written by group or others", "0644 or less"),
            };
            (open_to_others != 0).then(|| {
                format!(
                    "{key} is in {}, which {what} (mode {mode:04o}), expected mode {expected}",
                    path.display()
                )
            })
        })
    }

    /// Everything on disk that decides what this rail does, and who may know it.
    fn all_files(&self) -> Vec<(String, PathBuf, Secrecy)> {
        let own = ("the rail".to_owned(), self.own_path(), Secrecy::Public);
        let sources = self.sources().into_iter().filter_map(|(key, source, secrecy)| {
            let path = self.source_path(source)?;
            Some((key, path, secrecy))
        });
        let public =
            self.public_files().into_iter().map(|(key, path)| (key.to_owned(), path, Secrecy::Public));
        sources.chain(public).chain([own]).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_secret_of_the_simulators_is_known() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/rails/simulated");
        let mut found: Vec<String> = fs::read_dir(folder)
            .expect("the folder")
            .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("a text"))
            .map(|text| text.split_ascii_whitespace().collect::<String>())
            .map(|bare| Digest::of(bare.as_bytes()).to_string())
            .collect();
        found.sort();
        let mut known = KNOWN.to_vec();
        known.sort_unstable();
        assert_eq!(known, found);
    }
}
