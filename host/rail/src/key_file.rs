//! A key as a rail file writes it.

use serde::Deserialize;

use super::source::SecretSource;
use verdict::digest::Digest;

/// `[keys.NAME]`: for what is signed, encrypted or verified.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    pub algorithm: Algorithm,
    /// PEM, or for HMAC the secret itself.
    pub key: Option<SecretSource>,
    /// Or: the rail publishes it.
    pub fetch: Option<FetchFile>,
    /// Exactly so many bits, also where that is fewer than are safe today.
    pub bits: Option<u32>,
}

/// How the host takes a key from a reply.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FetchFile {
    /// The name of a step of class session.
    pub step: String,
    /// A JSON pointer into its reply, to the key in PEM or in base64.
    pub value: String,
    /// A JSON pointer to the moment at which it ends.
    pub ends: Option<String>,
    /// It is fetched anew this often.
    #[serde(default = "FetchFile::refresh_default")]
    pub refresh_seconds: u32,
    /// SHA-256 of the keys that were approved (of their DER), as hexadecimal digits.
    pub pins: Vec<String>,
}

impl FetchFile {
    fn refresh_default() -> u32 {
        3600
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Algorithm {
    #[serde(rename = "rsa-pkcs1-sha256")]
    SignRsaPkcs1Sha256,
    #[serde(rename = "rsa-pss-sha256")]
    SignRsaPssSha256,
    #[serde(rename = "rsa-pss-sha512")]
    SignRsaPssSha512,
    #[serde(rename = "ecdsa-p256-sha256")]
    SignEcdsaP256Sha256,
    #[serde(rename = "ed25519")]
    SignEd25519,
    #[serde(rename = "verify-rsa-pkcs1-sha256")]
    VerifyRsaPkcs1Sha256,
    #[serde(rename = "verify-ecdsa-p256-sha256")]
    VerifyEcdsaP256Sha256,
    #[serde(rename = "verify-ed25519")]
    VerifyEd25519,
    #[serde(rename = "hmac-sha256")]
    HmacSha256,
    #[serde(rename = "hmac-sha512")]
    HmacSha512,
    #[serde(rename = "rsa-encrypt-pkcs1")]
    EncryptRsaPkcs1,
    #[serde(rename = "rsa-encrypt-oaep-sha1")]
    EncryptRsaOaepSha1,
    #[serde(rename = "rsa-encrypt-oaep-sha256")]
    EncryptRsaOaepSha256,
    #[serde(rename = "rsa-encrypt-oaep-sha256-mgf1-sha1")]
    EncryptRsaOaepSha256Mgf1Sha1,
}

impl Algorithm {
    /// Whether the key is the rail's public one.
    pub(super) fn is_public(self) -> bool {
        self.encrypts() || self.verifies()
    }

    pub(super) fn encrypts(self) -> bool {
        matches!(
            self,
            Self::EncryptRsaPkcs1
                | Self::EncryptRsaOaepSha1
                | Self::EncryptRsaOaepSha256
                | Self::EncryptRsaOaepSha256Mgf1Sha1
        )
    }

    fn verifies(self) -> bool {
        matches!(self, Self::VerifyRsaPkcs1Sha256 | Self::VerifyEcdsaP256Sha256 | Self::VerifyEd25519)
    }

    pub(super) fn is_rsa(self) -> bool {
        self.encrypts() || self == Self::VerifyRsaPkcs1Sha256
    }

    /// It can tell whether a callback is the rail's.
    pub(super) fn can_verify(self) -> bool {
        self.verifies() || matches!(self, Self::HmacSha256 | Self::HmacSha512)
    }
}

impl KeyFile {
    pub(super) fn problem(&self, name: &str) -> Option<String> {
        let key = format!("keys.{name}");
        let Some(fetch) = &self.fetch else {
            return match &self.key {
                None => Some(format!("{key} has neither key nor fetch, expected one of them")),
                Some(_) => self.bits_problem(&key),
            };
        };
        if self.key.is_some() {
            return Some(format!("{key} has key and fetch, expected one of them"));
        }
        if !self.algorithm.encrypts() {
            return Some(format!("{key}.fetch is given, only a key that encrypts may have it"));
        }
        let pointers = [Some(&fetch.value), fetch.ends.as_ref()];
        if pointers.into_iter().flatten().any(|pointer| !pointer.starts_with('/')) {
            return Some(format!(
                "{key}.fetch: value and ends are JSON pointers, expected them to begin with /"
            ));
        }
        if fetch.refresh_seconds < 60 {
            return Some(format!(
                "{key}.fetch.refresh_seconds is {}, expected 60 or more",
                fetch.refresh_seconds
            ));
        }
        let sound = |pin: &String| Digest::parse(pin).is_some() && *pin == pin.to_lowercase();
        match fetch.pins.is_empty() || !fetch.pins.iter().all(sound) {
            true => Some(format!(
                "{key}.fetch.pins expects the SHA-256 of approved keys, 64 lower-case hexadecimal digits each"
            )),
            false => self.bits_problem(&key),
        }
    }

    fn bits_problem(&self, key: &str) -> Option<String> {
        let bits = self.bits?;
        let least = if self.algorithm == Algorithm::EncryptRsaPkcs1 { 1024 } else { 2048 };
        (!self.algorithm.is_rsa() || !(least..=8192).contains(&bits))
            .then(|| format!("{key}.bits is {bits}, expected {least} to 8192, of a public RSA key"))
    }
}
