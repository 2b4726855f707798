//! How bytes are written as text.

use serde::Deserialize;

/// How a signature or an HMAC is written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// The standard alphabet of RFC 4648, with padding.
    #[default]
    Base64,
    /// Hexadecimal digits, written in lower case.
    Hex,
}
