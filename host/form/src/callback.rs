//! What a rail tells unasked. Signed, and about this payment, it is a reply; anything less is a hint to ask.

use payment::KeyForm;

use crate::callback_file::{CallbackFile, VerifyFile};
use crate::doc::Path;
use crate::json::Json;
use crate::reply::ReplyRule;
use crate::reply_file::Format;

/// The name under which an adapter reads it.
pub const STEP: &str = "callback";

/// The same, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// Key and header by which the host knows that the rail sent it.
    pub verify: VerifyFile,
    names: Option<(String, KeyForm)>,
    pub(crate) rule: ReplyRule,
}

impl Callback {
    pub(crate) fn load(file: &CallbackFile, keys: &[String]) -> Result<Self, String> {
        let verify = &file.verify;
        if !keys.contains(&verify.key) {
            return Err(format!("callback.verify.key is {:?}, expected one of [keys]", verify.key));
        }
        let token = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if verify.header.is_empty() || !verify.header.bytes().all(token) {
            return Err(format!(
                "callback.verify.header is {:?}, expected a name in lower case",
                verify.header
            ));
        }
        let rule = ReplyRule::load("callback.reply", &file.reply)?;
        if !rule.binds() {
            return Err(
                "callback.reply has no bound; expected the place where the rail names the payment's key"
                    .to_owned(),
            );
        }
        if rule.reads_headers() {
            return Err("callback.reply reads a header, expected what is signed: the body".to_owned());
        }
        if rule.captures().next().is_some() {
            return Err("callback.reply has a capture; only steps may capture".to_owned());
        }
        let names = match &file.names {
            None => None,
            Some(_) if file.reply.body != Format::Json => {
                return Err("callback.names is only allowed for JSON callbacks".to_owned());
            }
            Some(named) => {
                let form = KeyForm::parse(&named.form)
                    .filter(|form| matches!(form, KeyForm::Uuid | KeyForm::Hex | KeyForm::Hex32));
                let form = form.ok_or_else(|| {
                    format!("callback.names.form is {:?}, expected uuid, hex or hex32", named.form)
                })?;
                Path::parse(Format::Json, &named.at).map_err(|why| format!("callback.names.at: {why}"))?;
                Some((named.at.clone(), form))
            }
        };
        Ok(Self { verify: verify.clone(), names, rule })
    }

    /// Whether the body, and not the address, says which payment it is about.
    pub fn is_named_by_body(&self) -> bool {
        self.names.is_some()
    }

    /// The key that the body names, as it stands there, and its form.
    pub fn named(&self, body: &[u8]) -> Option<(String, KeyForm)> {
        let (at, form) = self.names.as_ref()?;
        match Json::read(body).ok()?.at(at) {
            Some(Json::Text(text)) => Some((text.clone(), *form)),
            _ => None,
        }
    }

    /// The forms of the key that it looks for.
    pub(crate) fn key_forms(&self) -> impl Iterator<Item = KeyForm> {
        self.rule.key_forms().chain(self.names.iter().map(|(_, form)| *form))
    }
}
