//! MTN MoMo Open API, product Disbursement, as it was documented and seen on the wire.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Method;
use serde_json::{Value, json};
use url::{Host, Url};
use uuid::Uuid;

use crate::order::ReceivedPayment;
use crate::parse::Json;
use crate::rail::{Ask, RailModel, RailRequest, SimulatedReply};
use crate::script::{self, Plan, Says};
use crate::tokens::IssuedTokens;

/// What stands in `config/rails/simulated/`.
pub(crate) const API_USER: &str = "5f3d1b62-7c3e-4d0a-9a41-0c8f2f9be001";
pub(crate) const API_KEY: &str = "simulated-mtn-api-key";
pub(crate) const SUBSCRIPTION_KEY: &str = "simulated-mtn-subscription-key";

const TRANSFER: &str = "/disbursement/v1_0/transfer";
const BALANCE: &str = "/disbursement/v1_0/account/balance";
const HOLDER: &str = "/disbursement/v1_0/accountholder/msisdn";
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
    ("46733123455", "then failed COULD_NOT_PERFORM_TRANSACTION"),
    ("46733123456", "then failed COULD_NOT_PERFORM_TRANSACTION"),
    ("46733123457", "then failed PAYER_NOT_FOUND"),
    ("46733123458", "then failed NOT_ALLOWED"),
    ("46733123459", "then failed NOT_ALLOWED_TARGET_ENVIRONMENT"),
    ("46733123460", "then failed INVALID_CALLBACK_URL_HOST"),
    ("46733123461", "then failed INVALID_CURRENCY"),
    ("46733123462", "then failed INTERNAL_PROCESSING_ERROR"),
    ("46733123463", "then failed SERVICE_UNAVAILABLE"),
    ("46733123464", "then failed TRANSFER_TYPE_UNKNOWN"),
];

#[derive(Debug)]
pub(crate) struct Mtn;

#[derive(Debug)]
struct Transfer {
    amount: String,
    currency: String,
    external_id: String,
    party_id_type: String,
    party_id: String,
    payer_message: String,
    payee_note: String,
}

impl Transfer {
    fn read(body: &[u8]) -> Option<Self> {
        let json = Json::read(body)?;
        let text = |path: &[&str]| json.text(path).map(ToOwned::to_owned);
        let note = |name: &str| match json.at(&[name]) {
            None => Some(String::new()),
            Some(Json::Text(text)) => Some(text.clone()),
            Some(_) => None,
        };
        Some(Self {
            amount: text(&["amount"])?,
            currency: text(&["currency"])?,
            external_id: text(&["externalId"])?,
            party_id_type: text(&["payee", "partyIdType"])?,
            party_id: text(&["payee", "partyId"])?,
            payer_message: note("payerMessage")?,
            payee_note: note("payeeNote")?,
        })
    }
}

impl RailModel for Mtn {
    fn read(&self, asked: &RailRequest, tokens: &IssuedTokens) -> Result<Ask, SimulatedReply> {
        match (&asked.method, asked.path.as_str()) {
            (&Method::POST, "/disbursement/token/") => session(asked),
            (&Method::POST, TRANSFER) => {
                let (reference, transfer) = transfer(asked)?;
                authorised(asked, tokens)?;
                Ok(Ask::Pay(Box::new(order(asked, reference, transfer)?)))
            }
            (&Method::GET, path) => {
                let after = |prefix: &str| path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/'));
                let payee = after(HOLDER).and_then(|rest| rest.strip_suffix("/active"));
                let ask = match (after(TRANSFER), after(BALANCE), payee) {
                    (Some(reference), ..) => Ask::Status(reference.to_lowercase()),
                    (_, Some(currency), _) => Ask::Balance(currency.to_owned()),
                    (.., Some(payee)) => Ask::Payee(payee.to_owned()),
                    _ => return Err(SimulatedReply::empty(404)),
                };
                authorised(asked, tokens)?;
                market(asked)?;
                Ok(ask)
            }
            _ => Err(SimulatedReply::empty(404)),
        }
    }

    fn session(&self, token: &str, lifetime: Duration) -> SimulatedReply {
        let seconds = lifetime.as_secs();
        SimulatedReply::json(
            200,
            &json!({ "access_token": token, "token_type": "access_token", "expires_in": seconds }),
        )
    }

    /// Also what is doomed is accepted.
    fn accepted(&self, _: &ReceivedPayment, _: &Says) -> SimulatedReply {
        SimulatedReply::empty(202)
    }

    fn duplicate(&self, _: &ReceivedPayment) -> SimulatedReply {
        refusal(409, "RESOURCE_ALREADY_EXIST", "Duplicated reference id. Creation of resource failed.")
    }

    fn status(&self, order: &ReceivedPayment, says: &Says) -> SimulatedReply {
        SimulatedReply::json(200, &state(order, says))
    }

    fn not_found(&self) -> SimulatedReply {
        refusal(404, "RESOURCE_NOT_FOUND", "Requested resource was not found.")
    }

    fn busy(&self) -> SimulatedReply {
        SimulatedReply::empty(429)
    }

    fn refused(&self, status: u16, code: &str) -> SimulatedReply {
        refusal(status, code, "Refused by the script.")
    }

    fn plan(&self, order: &ReceivedPayment) -> Option<Plan> {
        let (_, parts) = SANDBOX.iter().find(|(number, _)| *number == order.payee)?;
        script::plan(parts, self.variants()).ok()
    }

    /// `reason` is an object in the documents and a text on the wire.
    fn variants(&self) -> &'static [&'static str] {
        &["object"]
    }

    fn balance(&self, currency: &str, left: &str) -> SimulatedReply {
        SimulatedReply::json(200, &json!({ "availableBalance": left, "currency": currency }))
    }

    /// By the sandbox's numbers: one that nobody has, one that is not active.
    fn payee(&self, payee: &str) -> SimulatedReply {
        match payee {
            "46733123450" => self.not_found(),
            _ => SimulatedReply::json(200, &json!({ "result": payee != "46733123451" })),
        }
    }

    /// There a reason is always an object.
    fn callback(&self, order: &ReceivedPayment, says: &Says) -> Option<String> {
        let mut state = state(order, says);
        if let Some(code) = state["reason"].as_str().map(ToOwned::to_owned) {
            state["reason"] = json!({ "code": code, "message": "Said by the simulator." });
        }
        Some(state.to_string())
    }
}

fn session(asked: &RailRequest) -> Result<Ask, SimulatedReply> {
    if asked.header("content-length").is_none() {
        return Err(SimulatedReply::html(411));
    }
    if !asked.body.is_empty() {
        return Err(SimulatedReply::empty(400));
    }
    if asked.header("ocp-apim-subscription-key") != Some(SUBSCRIPTION_KEY) {
        return Err(no_subscription());
    }
    let expected = format!("Basic {}", BASE64.encode(format!("{API_USER}:{API_KEY}")));
    match asked.header("authorization") == Some(&expected) {
        true => Ok(Ask::Session),
        false => Err(SimulatedReply::json(401, &json!({ "error": "login_failed" }))),
    }
}

fn authorised(asked: &RailRequest, tokens: &IssuedTokens) -> Result<(), SimulatedReply> {
    if asked.header("ocp-apim-subscription-key") != Some(SUBSCRIPTION_KEY) {
        return Err(no_subscription());
    }
    match asked.bearer().is_some_and(|token| tokens.is_good(token)) {
        true => Ok(()),
        false => Err(SimulatedReply::json(401, &json!({ "statusCode": 401, "message": "Unauthorized" }))),
    }
}

fn no_subscription() -> SimulatedReply {
    let message = "Access denied due to invalid subscription key. Make sure to provide a valid key for an active subscription.";
    SimulatedReply::json(401, &json!({ "statusCode": 401, "message": message }))
}

/// The reference and the body, each in its shape.
fn transfer(asked: &RailRequest) -> Result<(String, Transfer), SimulatedReply> {
    let wrong = |what: &str| refusal(400, "VALIDATION_ERROR", what);
    let reference = asked.header("x-reference-id").unwrap_or_default().to_lowercase();
    if !Uuid::parse_str(&reference).is_ok_and(|id| id.get_version_num() == 4) || reference.len() != 36 {
        return Err(wrong("X-Reference-Id is not a UUID of version 4"));
    }
    if asked.header("content-type") != Some("application/json") {
        return Err(wrong("Content-Type is not application/json"));
    }
    let transfer = Transfer::read(&asked.body).ok_or_else(|| wrong("the body is not as documented"))?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, decimals) = transfer.amount.split_once('.').unwrap_or((&transfer.amount, "0"));
    if !digits(whole)
        || !digits(decimals)
        || !transfer.amount.bytes().any(|byte| (b'1'..=b'9').contains(&byte))
    {
        return Err(wrong("amount is not a positive decimal number"));
    }
    if transfer.party_id_type != "MSISDN"
        || !digits(&transfer.party_id)
        || !(8..=15).contains(&transfer.party_id.len())
    {
        return Err(wrong("payee is not an MSISDN"));
    }
    for note in [&transfer.payer_message, &transfer.payee_note] {
        if note.chars().count() > NOTE_CHARS_MAX || note.contains(['\'', '"', '<', '>', '&']) {
            return Err(wrong("a note is too long or holds a character that is not supported"));
        }
    }
    Ok((reference, transfer))
}

/// The currency of the market that a request is for.
fn market(asked: &RailRequest) -> Result<&'static str, SimulatedReply> {
    let named = asked.header("x-target-environment");
    let market = MARKETS.iter().find(|(market, _)| named == Some(market));
    market.map(|(_, currency)| *currency).ok_or_else(|| {
        refusal(500, "NOT_ALLOWED_TARGET_ENVIRONMENT", "Access to target environment is forbidden.")
    })
}

/// What depends on the account: environment, currency, address for callbacks.
fn order(
    asked: &RailRequest,
    reference: String,
    transfer: Transfer,
) -> Result<ReceivedPayment, SimulatedReply> {
    let currency = market(asked)?;
    if transfer.currency != currency {
        return Err(refusal(500, "INVALID_CURRENCY", "Currency not supported."));
    }
    let callback = match asked.header("x-callback-url").map(Url::parse) {
        None => None,
        // A host by its name and over TLS; this machine itself is taken as well, for nothing else can be reached from here.
        Some(Ok(url)) if may_be_called(&url) => Some(url),
        Some(_) => {
            return Err(refusal(
                500,
                "INVALID_CALLBACK_URL_HOST",
                "Callback URL with different host name then configured for API User.",
            ));
        }
    };
    Ok(ReceivedPayment {
        key: reference,
        payee: transfer.party_id,
        amount: transfer.amount,
        currency: transfer.currency,
        reference: transfer.external_id,
        note: transfer.payee_note,
        batch: String::new(),
        callback,
    })
}

fn refusal(status: u16, code: &str, message: &str) -> SimulatedReply {
    SimulatedReply::json(status, &json!({ "message": message, "code": code }))
}

fn may_be_called(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => url.scheme() == "https" || name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        _ => false,
    }
}

/// The resource, as a question and a callback show it.
fn state(order: &ReceivedPayment, says: &Says) -> Value {
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
