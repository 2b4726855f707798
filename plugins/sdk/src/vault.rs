//! Secrets, without ever seeing one.

use crate::bindings::symphony::rail::vault;

pub use vault::{Plaintext, Problem};

/// A text that stands for the secret with this name, to be put where the rail's file says it belongs.
pub fn handle(name: &str) -> Result<String, Problem> {
    vault::handle(name)
}

pub fn sign(key: &str, message: &[u8]) -> Result<Vec<u8>, Problem> {
    vault::sign(key, message)
}

pub fn hmac(key: &str, message: &[u8]) -> Result<Vec<u8>, Problem> {
    vault::hmac(key, message)
}

/// The value of the secret `secret`, encrypted under the public key `key`.
pub fn encrypt_secret(key: &str, secret: &str) -> Result<Vec<u8>, Problem> {
    vault::encrypt(key, &Plaintext::Secret(secret.to_owned()))
}

pub fn encrypt(key: &str, bytes: &[u8]) -> Result<Vec<u8>, Problem> {
    vault::encrypt(key, &Plaintext::Bytes(bytes.to_vec()))
}
