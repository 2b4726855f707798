//! What Airtel's replies say, by the names of the rail file.

use rail_sdk::prelude::*;
use rail_sdk::{Facts, Reply};

use crate::wire::Envelope;

/// Somebody on the way gave up waiting. Airtel calls these ambiguous for payments, whatever code comes with them.
const GAVE_UP: [u16; 3] = [408, 502, 504];

pub(crate) fn facts(reply: &Reply) -> Result<Facts, String> {
    if GAVE_UP.contains(&reply.status) {
        return Ok(Facts::new());
    }
    let Ok(said) = serde_json::from_slice::<Envelope>(&reply.body) else { return Ok(Facts::new()) };
    let code = match said.response_code() {
        Some(code) => Some(("response_code", code)),
        None => said.result_code().map(|code| ("result_code", code)),
    };
    let status = said.transaction_status().map(|status| ("status", status));
    let gateway = said.gateway_code().map(|code| ("status_code", code));
    let facts = [code, status, gateway].into_iter().flatten();
    Ok(facts.map(|(name, value)| (name.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, body: &str) -> Facts {
        facts(&Reply { status, headers: Vec::new(), body: body.into() }).expect("it reads it")
    }

    #[test]
    fn each_envelope_has_its_facts() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let business = r#"{"status":{"response_code":"DP00900001001","result_code":"ESB000010","code":200},
                           "data":{"transaction":{"status":"TS"}}}"#;
        assert_eq!(read(200, business), [pair("response_code", "DP00900001001"), pair("status", "TS")]);
        assert_eq!(
            read(200, r#"{"status":{"result_code":521050},"data":[]}"#),
            [pair("result_code", "521050")]
        );
        assert_eq!(read(400, r#"{"status_code":"ROUTER110"}"#), [pair("status_code", "ROUTER110")]);
        assert_eq!(read(504, business), []);
    }
}
