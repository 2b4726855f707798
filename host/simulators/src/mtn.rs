//! MTN MoMo Open API, product Disbursement, as it was documented and seen on the wire.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use crate::rail::{Ask, Asked, Order, Rail, Reply};
use crate::script::{self, Plan, Says};
use crate::tokens::Tokens;

/// What stands in `config/rails/simulated/`.
pub(crate) const API_USER: &str = "5f3d1b62-7c3e-4d0a-9a41-0c8f2f9be001";
pub(crate) const API_KEY: &str = "simulated-mtn-api-key";
pub(crate) const SUBSCRIPTION_KEY: &str = "simulated-mtn-subscription-key";

const TRANSFER: &str = "/disbursement/v1_0/transfer";
const NOTE_CHARS_MAX: usize = 160;
/// Each market pays in its own currency, and the sandbox in euros wherever one is.
const MARKETS: [(&str, &str); 15] = [
    ("sandbox", "EUR"),
    ("mtnzambia", "ZMW"),
    ("mtnuganda", "UGX"),
    ("mtnghana", "GHS"),
    ("mtnivorycoast", "XOF"),
    ("mtncameroon", "XAF"),
    ("mtnrwanda", "RWF"),
    ("mtnnigeria", "NGN"),
    ("mtnsouthafrica", "ZAR"),
    ("mtnbenin", "XOF"),
    ("mtncongo", "XAF"),
    ("mtnswaziland", "SZL"),
    ("mtnguineaconakry", "GNF"),
    ("mtnliberia", "LRD"),
    ("mtnsouthsudan", "SSP"),
];

/// The sandbox's numbers and what becomes of payments to them.
const SANDBOX: [(&str, &str); 15] = [
    ("46733123450", "then failed INTERNAL_PROCESSING_ERROR"),
    ("46733123451", "then failed APPROVAL_REJECTED"),
    ("46733123452", "then failed EXPIRED"),
    ("46733123453", "then pending"),
    ("46733123454", "then pending, after 4s settled"),
    ("46733123455", "then failed NOT_ENOUGH_FUNDS"),
    ("46733123456", "then failed PAYER_LIMIT_REACHED"),
    ("46733123457", "then failed PAYEE_NOT_FOUND"),
    ("46733123458", "pay refuse 500 NOT_ALLOWED"),
    ("46733123459", "pay refuse 500 NOT_ALLOWED_TARGET_ENVIRONMENT"),
    ("46733123460", "pay refuse 500 INVALID_CALLBACK_URL_HOST"),
    ("46733123461", "pay refuse 500 INVALID_CURRENCY"),
    ("46733123462", "pay refuse 500 INTERNAL_PROCESSING_ERROR"),
    ("46733123463", "pay refuse 503 SERVICE_UNAVAILABLE"),
    ("46733123464", "then failed TRANSFER_TYPE_UNKNOWN"),
];

#[derive(Debug)]
pub(crate) struct Mtn;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Transfer {
    amount: String,
    currency: String,
    external_id: String,
    payee: Party,
    #[serde(default)]
    payer_message: String,
    #[serde(default)]
    payee_note: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Party {
    party_id_type: String,
    party_id: String,
}

impl Rail for Mtn {
    fn read(&self, asked: &Asked, tokens: &Tokens) -> Result<Ask, Reply> {
        match (&asked.method, asked.path.as_str()) {
            (&Method::POST, "/disbursement/token/") => session(asked),
            (&Method::POST, TRANSFER) => {
                let (reference, transfer) = transfer(asked)?;
                authorised(asked, tokens)?;
                Ok(Ask::Pay(Box::new(order(asked, reference, transfer)?)))
            }
            (&Method::GET, path) => {
                let reference = path.strip_prefix(TRANSFER).and_then(|rest| rest.strip_prefix('/'));
                let Some(reference) = reference else { return Err(Reply::empty(404)) };
                authorised(asked, tokens)?;
                Ok(Ask::Status(reference.to_lowercase()))
            }
            _ => Err(Reply::empty(404)),
        }
    }

    fn session(&self, token: &str, lifetime: Duration) -> Reply {
        let seconds = lifetime.as_secs();
        Reply::json(
            200,
            &json!({ "access_token": token, "token_type": "access_token", "expires_in": seconds }),
        )
    }

    /// Also what is doomed is accepted.
    fn accepted(&self, _: &Order, _: &Says) -> Reply {
        Reply::empty(202)
    }

    fn duplicate(&self, _: &Order) -> Reply {
        refusal(409, "RESOURCE_ALREADY_EXIST", "Duplicated reference id. Creation of resource failed.")
    }

    fn status(&self, order: &Order, says: &Says) -> Reply {
        Reply::json(200, &state(order, says))
    }

    fn not_found(&self) -> Reply {
        refusal(404, "RESOURCE_NOT_FOUND", "Requested resource was not found.")
    }

    fn busy(&self) -> Reply {
        Reply::empty(429)
    }

    fn refused(&self, status: u16, code: &str) -> Reply {
        refusal(status, code, "Refused by the script.")
    }

    fn plan(&self, order: &Order) -> Option<Plan> {
        let (_, parts) = SANDBOX.iter().find(|(number, _)| *number == order.payee)?;
        script::plan(parts, self.variants()).ok()
    }

    /// `reason` is an object in the documents and a text on the wire.
    fn variants(&self) -> &'static [&'static str] {
        &["object"]
    }

    fn callback(&self, order: &Order, says: &Says) -> Option<String> {
        Some(state(order, says).to_string())
    }
}

fn session(asked: &Asked) -> Result<Ask, Reply> {
    if asked.header("content-length").is_none() {
        return Err(Reply::html(411));
    }
    if !asked.body.is_empty() {
        return Err(Reply::empty(400));
    }
    if asked.header("ocp-apim-subscription-key") != Some(SUBSCRIPTION_KEY) {
        return Err(no_subscription());
    }
    let expected = format!("Basic {}", BASE64.encode(format!("{API_USER}:{API_KEY}")));
    match asked.header("authorization") == Some(&expected) {
        true => Ok(Ask::Session),
        false => Err(Reply::json(401, &json!({ "error": "login_failed" }))),
    }
}

fn authorised(asked: &Asked, tokens: &Tokens) -> Result<(), Reply> {
    if asked.header("ocp-apim-subscription-key") != Some(SUBSCRIPTION_KEY) {
        return Err(no_subscription());
    }
    match asked.bearer().is_some_and(|token| tokens.is_good(token)) {
        true => Ok(()),
        false => Err(Reply::json(401, &json!({ "statusCode": 401, "message": "Unauthorized" }))),
    }
}

fn no_subscription() -> Reply {
    let message = "Access denied due to invalid subscription key. Make sure to provide a valid key for an active subscription.";
    Reply::json(401, &json!({ "statusCode": 401, "message": message }))
}

/// The reference and the body, each in its shape.
fn transfer(asked: &Asked) -> Result<(String, Transfer), Reply> {
    let wrong = |what: &str| refusal(400, "VALIDATION_ERROR", what);
    let reference = asked.header("x-reference-id").unwrap_or_default().to_lowercase();
    if !Uuid::parse_str(&reference).is_ok_and(|id| id.get_version_num() == 4) || reference.len() != 36 {
        return Err(wrong("X-Reference-Id is no UUID of version 4"));
    }
    if asked.header("content-type") != Some("application/json") {
        return Err(wrong("Content-Type is not application/json"));
    }
    let transfer: Transfer =
        serde_json::from_slice(&asked.body).map_err(|error| wrong(&error.to_string()))?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, decimals) = transfer.amount.split_once('.').unwrap_or((&transfer.amount, "0"));
    if !digits(whole)
        || !digits(decimals)
        || !transfer.amount.bytes().any(|byte| (b'1'..=b'9').contains(&byte))
    {
        return Err(wrong("amount is no positive decimal number"));
    }
    if transfer.payee.party_id_type != "MSISDN"
        || !digits(&transfer.payee.party_id)
        || !(8..=15).contains(&transfer.payee.party_id.len())
    {
        return Err(wrong("payee is no MSISDN"));
    }
    for note in [&transfer.payer_message, &transfer.payee_note] {
        if note.chars().count() > NOTE_CHARS_MAX || note.contains(['\'', '"', '<', '>', '&']) {
            return Err(wrong("a note is too long or holds a character that is not supported"));
        }
    }
    Ok((reference, transfer))
}

/// What depends on the account: environment, currency, address for callbacks.
fn order(asked: &Asked, reference: String, transfer: Transfer) -> Result<Order, Reply> {
    let market = MARKETS.iter().find(|(market, _)| asked.header("x-target-environment") == Some(market));
    let Some((_, currency)) = market else {
        return Err(refusal(
            500,
            "NOT_ALLOWED_TARGET_ENVIRONMENT",
            "Access to target environment is forbidden.",
        ));
    };
    if transfer.currency != *currency {
        return Err(refusal(500, "INVALID_CURRENCY", "Currency not supported."));
    }
    let callback = match asked.header("x-callback-url").map(Url::parse) {
        None => None,
        Some(Ok(url)) if url.host_str().is_some() => Some(url),
        Some(_) => {
            return Err(refusal(
                500,
                "INVALID_CALLBACK_URL_HOST",
                "Callback URL with different host name then configured for API User.",
            ));
        }
    };
    Ok(Order {
        key: reference,
        payee: transfer.payee.party_id,
        amount: transfer.amount,
        currency: transfer.currency,
        reference: transfer.external_id,
        note: transfer.payee_note,
        callback,
    })
}

fn refusal(status: u16, code: &str, message: &str) -> Reply {
    Reply::json(status, &json!({ "message": message, "code": code }))
}

/// The resource, as a question and a callback show it.
fn state(order: &Order, says: &Says) -> Value {
    // MTN writes amounts in its own way: 5.00 comes back as 5.
    let amount = match order.amount.contains('.') {
        true => order.amount.trim_end_matches('0').trim_end_matches('.'),
        false => &order.amount,
    };
    let mut state = json!({
        "amount": amount,
        "currency": order.currency,
        "externalId": order.reference,
        "payee": { "partyIdType": "MSISDN", "partyId": order.payee },
        "payerMessage": order.note,
        "payeeNote": order.note,
    });
    match says {
        Says::Settled => {
            let id: u32 =
                order.key.bytes().fold(7, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
            state["status"] = json!("SUCCESSFUL");
            state["financialTransactionId"] = json!(id.to_string());
        }
        Says::Pending(word) => state["status"] = json!(word.as_deref().unwrap_or("PENDING")),
        Says::Failed { variant, code } => {
            state["status"] = json!("FAILED");
            state["reason"] = match variant {
                None => json!(code),
                Some(_) => json!({ "code": code, "message": "Said by the script." }),
            };
        }
        Says::Word(word) => state["status"] = json!(word),
        Says::Missing => {}
    }
    state
}
