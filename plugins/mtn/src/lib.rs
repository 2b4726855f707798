//! MTN MoMo Open API, product Disbursement. The messages are in [`wire`], what they mean in [`map`].
//!
//! `transfer` is answered with an empty 202 even where it is doomed, so the truth is in the status. The key is the
//! `X-Reference-Id`; the same UUID is the `externalId`, the only thing that a callback says about a payment.

mod map;
mod wire;

use rail_sdk::http::{Failure, Request, Response};
use rail_sdk::msisdn::Msisdn;
use rail_sdk::tokens::NoToken;
use rail_sdk::{Adapter, Answer, Description, Instruction, Need, Violation, settings, tokens, vault};

struct Mtn;

const TOKEN: &str = "access";
/// For `payerMessage` and `payeeNote`.
const NOTE_CHARS_MAX: usize = 160;

impl Adapter for Mtn {
    fn describe() -> Description {
        Description::new("mtn", env!("CARGO_PKG_VERSION"))
            .setting(Need::required("base_url", "scheme and host, without a slash at the end"))
            .setting(Need::required("target_environment", "X-Target-Environment: sandbox, mtnzambia, …"))
            .setting(Need::required("currency", "the only one that this market pays in"))
            .setting(Need::required("country_code", "of payees: 260 for Zambia"))
            .setting(Need::optional("amount_min", "the least that may be paid"))
            .setting(Need::optional("amount_max", "the most that may be paid"))
            .setting(Need::optional(
                "callback_url",
                "where the host takes hints: https://host/callbacks/RAIL",
            ))
            .secret(Need::required("api_user", "a UUID"))
            .secret(Need::required("api_key", "of the API user"))
            .secret(Need::required("subscription_key", "of the product Disbursement"))
            .key(Need::optional("callback", "makes callback addresses that nobody can guess"))
            .token(Need::required(TOKEN, "bearer token of the product"))
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
        let (least, most) = (settings::get("amount_min"), settings::get("amount_max"));
        if let Some(problem) = instruction.amount.out_of_bounds(least.as_deref(), most.as_deref()) {
            wrong("amount", problem);
        }
        if let Some(problem) = instruction.narrative.as_deref().and_then(wrong_note) {
            wrong("narrative", problem);
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }

    fn disburse(instruction: &Instruction) -> Answer {
        match transfer(instruction).and_then(send) {
            Ok(reply) => map::transferred(&reply),
            Err(Stopped::NoToken(said)) => Answer::NotSent(said),
            Err(Stopped::Failed(failure)) => Answer::of_failed_disburse(failure),
        }
    }

    fn query_status(instruction: &Instruction) -> Answer {
        let base_url = settings::required("base_url");
        match send(Request::get(format!("{base_url}/disbursement/v1_0/transfer/{}", instruction.key.uuid))) {
            Ok(reply) => map::status(&reply, &instruction.key.uuid),
            Err(Stopped::NoToken(said)) => Answer::unclear(None, said),
            Err(Stopped::Failed(failure)) => Answer::of_failed_query(failure),
        }
    }
}

fn transfer(instruction: &Instruction) -> Result<Request, Stopped> {
    let not_sent = |why: String| Stopped::Failed(Failure::NotSent(why));
    let country_code = settings::required("country_code");
    let payee = Msisdn::read(instruction.destination.part("msisdn").unwrap_or_default(), &country_code)
        .map_err(not_sent)?;
    let request = Request::post(format!("{}/disbursement/v1_0/transfer", settings::required("base_url")))
        .header("x-reference-id", instruction.key.uuid.clone())
        .json(&wire::Transfer::of(instruction, payee));
    match settings::get("callback_url") {
        None => Ok(request),
        Some(base) => {
            callback_url(&base, instruction).map(|url| request.header("x-callback-url", url)).map_err(
                |problem| not_sent(format!("settings.callback_url needs the key callback: {problem:?}")),
            )
        }
    }
}

/// Why there is no reply.
enum Stopped {
    NoToken(String),
    Failed(Failure),
}

/// Sends a request of the product, with all that MTN wants to know of the caller.
fn send(request: Request) -> Result<Response, Stopped> {
    let token = tokens::current(TOKEN, fetch_token).map_err(|why| {
        Stopped::NoToken(match why {
            NoToken::Failed(failure) => format!("no token: {}", failure.why()),
            NoToken::Refused(reply) => format!("no token: {}", reply.excerpt()),
            NoToken::Unknown(problem) => problem,
        })
    })?;
    let subscription = handle("subscription_key").map_err(Stopped::Failed)?;
    request
        .bearer(&token)
        .header("ocp-apim-subscription-key", subscription)
        .header("x-target-environment", settings::required("target_environment"))
        .send()
        .map_err(Stopped::Failed)
}

/// A POST without a body; the gate sends its `Content-Length: 0`, without which MTN answers 411.
fn fetch_token() -> Result<Response, Failure> {
    Request::post(format!("{}/disbursement/token/", settings::required("base_url")))
        .header("authorization", format!("Basic {}:{}", handle("api_user")?, handle("api_key")?))
        .header("ocp-apim-subscription-key", handle("subscription_key")?)
        .send()
}

fn handle(name: &str) -> Result<String, Failure> {
    vault::handle(name).map_err(|problem| Failure::NotSent(format!("{problem:?}")))
}

/// MTN signs nothing: an address that only it and we know is all there is, and what arrives there is a hint to ask.
fn callback_url(base: &str, instruction: &Instruction) -> Result<String, vault::Problem> {
    let proof = vault::hmac("callback", instruction.outbox_id.as_bytes())?;
    Ok(format!("{base}/{}/{}", instruction.outbox_id, hex::encode(proof)))
}

/// MTN refuses apostrophes and their like with a bare 400. Nothing is known against letters of other alphabets.
fn wrong_note(note: &str) -> Option<String> {
    if note.chars().count() > NOTE_CHARS_MAX {
        return Some(format!("must have {NOTE_CHARS_MAX} characters or less"));
    }
    let refused =
        note.chars().find(|char| !char.is_alphanumeric() && !" .,:;-_/()+#@*%=?!".contains(*char))?;
    Some(format!("must not hold {refused}"))
}

rail_sdk::export!(Mtn);
