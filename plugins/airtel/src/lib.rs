//! Airtel Africa Money, disbursements v2 and v3. The messages are in [`wire`], what they mean in [`map`].
//!
//! Airtel answers business failures with HTTP 200 and uses three envelopes. The key is `transaction.id`, all 64 digits of it.
//! The PIN never comes here: the host encrypts it under Airtel's key, with the padding that the rail's file names.
//!
//! Airtel has no field for a note to the payee: a payment's `narrative` is not sent.

mod map;
mod wire;

use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockEncryptMut, KeyIvInit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rail_sdk::http::{Failure, Request, Response};
use rail_sdk::msisdn::Msisdn;
use rail_sdk::tokens::NoToken;
use rail_sdk::{Adapter, Answer, Description, Instruction, Need, Violation, settings, tokens, vault};

struct Airtel;

const TOKEN: &str = "access";
/// More decimals than these are refused by the rail.
const DECIMALS_MAX: usize = 3;
/// Of `reference`, the only free text that Airtel has, which is the key here. Whoever writes more expects it to be read.
const NOTE_CHARS_MAX: usize = 64;

impl Adapter for Airtel {
    fn describe() -> Description {
        Description::new("airtel", env!("CARGO_PKG_VERSION"))
            .setting(Need::required("base_url", "scheme and host, without a slash at the end"))
            .setting(Need::required("version", "of the disbursement API: v2 or v3"))
            .setting(Need::required("country", "X-Country: ZM"))
            .setting(Need::required("currency", "X-Currency: ZMW"))
            .setting(Need::required("country_code", "of payees: 260 for Zambia"))
            .setting(Need::optional("wallet_type", "v3: NORMAL or SALARY"))
            .setting(Need::optional(
                "signing",
                "on where Airtel has message signing switched on, off elsewhere",
            ))
            .setting(Need::optional("amount_min", "the least that may be paid"))
            .setting(Need::optional("amount_max", "the most that may be paid"))
            .secret(Need::required("client_id", "of the application"))
            .secret(Need::required("client_secret", "of the application"))
            .secret(Need::required("pin", "four digits, for disbursements"))
            .key(Need::required("pin", "Airtel's public key, with the padding that it wants"))
            .key(Need::optional("signing", "Airtel's public key for message signing"))
            .token(Need::required(TOKEN, "bearer token, of three minutes"))
    }

    fn validate(instruction: &Instruction) -> Result<(), Vec<Violation>> {
        let mut violations = Vec::new();
        let mut wrong = |field: &str, problem: String| violations.push(Violation::new(field, problem));
        let payee = instruction.destination.part("msisdn").unwrap_or_default();
        if let Err(problem) = Msisdn::read(payee, &settings::required("country_code")) {
            wrong("destination.msisdn", problem);
        }
        let currency = settings::required("currency");
        if instruction.amount.currency != currency {
            wrong("currency", format!("must be {currency}"));
        }
        if instruction.amount.decimals() > DECIMALS_MAX {
            wrong("amount", format!("must have {DECIMALS_MAX} decimals or less"));
        }
        let (least, most) = (settings::get("amount_min"), settings::get("amount_max"));
        if let Some(problem) = instruction.amount.out_of_bounds(least.as_deref(), most.as_deref()) {
            wrong("amount", problem);
        }
        if instruction.narrative.as_deref().is_some_and(|note| note.chars().count() > NOTE_CHARS_MAX) {
            wrong("narrative", format!("must have {NOTE_CHARS_MAX} characters or less, and is not sent"));
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }

    fn disburse(instruction: &Instruction) -> Answer {
        match pay(instruction) {
            Ok(reply) => map::disbursed(&reply, &instruction.key.hex),
            Err(failure) => Answer::of_failed_disburse(failure),
        }
    }

    fn query_status(instruction: &Instruction) -> Answer {
        let url = format!("{}/{}?transactionType=B2C", disbursements(), instruction.key.hex);
        match send(Request::get(url)) {
            Ok(reply) => map::status(&reply, &instruction.key.hex),
            Err(failure) => Answer::of_failed_query(failure),
        }
    }
}

fn pay(instruction: &Instruction) -> Result<Response, Failure> {
    let country_code = settings::required("country_code");
    let payee = Msisdn::read(instruction.destination.part("msisdn").unwrap_or_default(), &country_code)
        .map_err(Failure::NotSent)?;
    let amount = instruction.amount.number().ok_or_else(|| Failure::NotSent("no number".to_owned()))?;
    let pin = BASE64.encode(vault::encrypt_secret("pin", "pin").map_err(unfit)?);
    let version = match settings::required("version").as_str() {
        "v2" => wire::Version::V2,
        "v3" => wire::Version::V3,
        other => return Err(Failure::NotSent(format!("settings.version is {other}, expected v2 or v3"))),
    };
    let disbursement = wire::Disbursement::new(version, instruction, payee.national(), amount, pin);
    // What is signed is what is sent, byte for byte.
    let body = serde_json::to_vec(&disbursement).map_err(|error| Failure::NotSent(error.to_string()))?;
    // Version 2 has a slash at the end, version 3 has none.
    let request = Request::post(match version {
        wire::Version::V2 => format!("{}/", disbursements()),
        wire::Version::V3 => disbursements(),
    });
    let request = match settings::get("signing").as_deref() {
        Some("on") => sign(request, &body)?,
        None | Some("off") => request,
        Some(other) => {
            return Err(Failure::NotSent(format!("settings.signing is {other}, expected on or off")));
        }
    };
    send(request.body("application/json", body))
}

fn disbursements() -> String {
    format!("{}/standard/{}/disbursements", settings::required("base_url"), settings::required("version"))
}

/// Message signing: the body under a fresh AES key, the AES key under Airtel's.
fn sign(request: Request, body: &[u8]) -> Result<Request, Failure> {
    let (mut key, mut iv) = ([0; 32], [0; 16]);
    let no_chance = |error: getrandom::Error| Failure::NotSent(error.to_string());
    getrandom::fill(&mut key).map_err(no_chance)?;
    getrandom::fill(&mut iv).map_err(no_chance)?;
    let sealed =
        cbc::Encryptor::<aes::Aes256>::new(&key.into(), &iv.into()).encrypt_padded_vec_mut::<Pkcs7>(body);
    let opener = format!("{}:{}", BASE64.encode(key), BASE64.encode(iv));
    let opener = vault::encrypt("signing", opener.as_bytes()).map_err(unfit)?;
    Ok(request.header("x-signature", BASE64.encode(sealed)).header("x-key", BASE64.encode(opener)))
}

fn send(request: Request) -> Result<Response, Failure> {
    let token = tokens::current(TOKEN, fetch_token).map_err(|why| match why {
        NoToken::Failed(failure) => Failure::NotSent(format!("no token: {}", failure.why())),
        NoToken::Refused(reply) => Failure::NotSent(format!("no token: {}", reply.excerpt())),
        NoToken::Unknown(problem) => Failure::NotSent(problem),
    })?;
    request
        .bearer(&token)
        .header("accept", "*/*")
        .header("x-country", settings::required("country"))
        .header("x-currency", settings::required("currency"))
        .send()
}

fn fetch_token() -> Result<Response, Failure> {
    let handle = |name| vault::handle(name).map_err(unfit);
    Request::post(format!("{}/auth/oauth2/token", settings::required("base_url")))
        .header("accept", "*/*")
        .json(&wire::TokenRequest {
            client_id: handle("client_id")?,
            client_secret: handle("client_secret")?,
            grant_type: "client_credentials",
        })
        .send()
}

fn unfit(problem: vault::Problem) -> Failure {
    Failure::NotSent(format!("{problem:?}"))
}

rail_sdk::export!(Airtel);
