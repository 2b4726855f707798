//! What a rail tells us unasked, as its file says it.

use serde::Deserialize;

use crate::encoding::Encoding;
use crate::reply_file::ReplyFile;

/// `[callback]` of a rail file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallbackFile {
    /// The signature or the HMAC that a callback needs to count as a reply.
    pub verify: VerifyFile,
    /// Where the body names the payment, for a rail that has one address for all of them. Without it the address names it.
    pub names: Option<NameFile>,
    /// How it is read. `bound` says that it is about this payment.
    pub reply: ReplyFile,
}

/// By what it is known that the rail sent it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyFile {
    /// One of `[keys]`.
    pub key: String,
    /// The header with the signature or the HMAC over the body.
    pub header: String,
    /// A text before it in the header, such as `sha256=`.
    #[serde(default)]
    pub prefix: String,
    /// How the header writes the signature or the HMAC; base64 where it is left out.
    #[serde(default)]
    pub encoding: Encoding,
    /// It is a JWS, detached from the body.
    #[serde(default)]
    pub jws: bool,
}

/// Where a callback names its payment, and in which form.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameFile {
    /// A JSON pointer.
    pub at: String,
    /// Form of the key there: `uuid`, `hex` or `hex32`.
    pub form: String,
}
