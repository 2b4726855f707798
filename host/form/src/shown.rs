//! Names in the place of secrets.

use uuid::Uuid;

use crate::input::Secrets;

/// Names in place of values: what may be seen of a request.
#[derive(Debug)]
pub struct Shown;

impl Secrets for Shown {
    fn is_shown(&self) -> bool {
        true
    }

    fn secret(&self, _: &str) -> Option<&str> {
        Some("[secret]")
    }

    fn token(&self, _: &str) -> Option<&str> {
        Some("[token]")
    }

    fn encrypt(&self, _: &str, _: &[u8]) -> Result<Vec<u8>, String> {
        Ok(b"[encrypted]".to_vec())
    }

    fn hmac(&self, _: &str, _: &[u8]) -> Result<Vec<u8>, String> {
        Ok(b"[hmac]".to_vec())
    }

    fn sign(&self, _: &str, _: &[u8]) -> Result<Vec<u8>, String> {
        Ok(b"[signature]".to_vec())
    }

    fn envelope(&self, _: &str, _: &[u8]) -> Result<(String, String), String> {
        Ok(("[sealed body]".to_owned(), "[sealed key]".to_owned()))
    }

    fn callback(&self, _: Uuid) -> Option<String> {
        None
    }
}
