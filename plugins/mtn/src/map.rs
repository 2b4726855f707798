//! What MTN's replies say, by the names of the rail file.

use rail_sdk::prelude::*;
use rail_sdk::{Facts, Reply};

use crate::wire::{Refusal, Status};

/// The reply to `transfer`: a 202 says no more than that.
pub(crate) fn transferred(reply: &Reply) -> Result<Facts, String> {
    match reply.status {
        202 => Ok(Facts::new()),
        _ => Ok(code(reply)),
    }
}

/// The reply to a question.
pub(crate) fn status(reply: &Reply) -> Result<Facts, String> {
    match reply.status {
        404 if reply.is_blank() => Ok(vec![("body".to_owned(), "blank".to_owned())]),
        404 => Ok(code(reply)),
        200 => {
            let Status { status, reason } = Status::read(&reply.body)?;
            let reason =
                reason.filter(|reason| !reason.is_empty()).map(|reason| ("reason".to_owned(), reason));
            Ok(core::iter::once(("status".to_owned(), status)).chain(reason).collect())
        }
        other => Err(format!("HTTP {other} says nothing about the payment")),
    }
}

fn code(reply: &Reply) -> Facts {
    let refusal = serde_json::from_slice::<Refusal>(&reply.body).ok();
    refusal.map(|refusal| ("code".to_owned(), refusal.code)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status, headers: Vec::new(), body: body.into() }
    }

    #[test]
    fn a_reason_is_read_as_an_object_and_as_a_text() {
        for reason in [r#"{"code":"PAYEE_NOT_FOUND","message":"m"}"#, r#""PAYEE_NOT_FOUND""#] {
            let read = status(&reply(200, &format!(r#"{{"status":"FAILED","reason":{reason}}}"#)));
            let read = read.expect("it reads it");
            assert_eq!(read[1], ("reason".to_owned(), "PAYEE_NOT_FOUND".to_owned()));
        }
    }

    #[test]
    fn a_page_of_a_gateway_has_no_fact() {
        let page = "<html><body>404 RESOURCE_NOT_FOUND</body></html>";
        assert_eq!(status(&reply(404, page)), Ok(Vec::new()));
        assert!(status(&reply(200, page)).is_err() && status(&reply(503, "")).is_err());
    }
}
