//! The adapter's exports. What the rail says is in `wire`, what it means in `map`.

mod map;
mod wire;

use rail_sdk::http::{Failure, Request, Response};
use rail_sdk::{Adapter, Answer, Description, Instruction, Need, Violation, settings, vault};

struct Rail;

impl Adapter for Rail {
    fn describe() -> Description {
        Description::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
            .setting(Need::required("base_url", "where the rail is, without a slash at the end"))
            .secret(Need::required("api_key", "sent as X-Api-Key"))
    }

    fn validate(instruction: &Instruction) -> Result<(), Vec<Violation>> {
        let mut violations = Vec::new();
        let msisdn = instruction.destination.part("msisdn").unwrap_or_default();
        if !(9..=15).contains(&msisdn.len()) || !msisdn.bytes().all(|byte| byte.is_ascii_digit()) {
            violations.push(Violation::new("destination.msisdn", "must be 9 to 15 digits"));
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }

    fn disburse(instruction: &Instruction) -> Answer {
        let request = Request::post(format!("{}/payments", settings::required("base_url")))
            .header("x-reference-id", instruction.key.uuid.clone())
            .json(&wire::Payment::of(instruction));
        match send(request) {
            Ok(reply) => map::disbursed(&reply),
            Err(failure) => Answer::of_failed_disburse(failure),
        }
    }

    fn query_status(instruction: &Instruction) -> Answer {
        let url = format!("{}/payments/{}", settings::required("base_url"), instruction.key.uuid);
        match send(Request::get(url)) {
            Ok(reply) => map::status(&reply),
            Err(failure) => Answer::of_failed_query(failure),
        }
    }
}

fn send(request: Request) -> Result<Response, Failure> {
    // A handle, not the key itself: the host fills it in where rail.toml says.
    let handle = vault::handle("api_key").map_err(|problem| Failure::NotSent(format!("{problem:?}")))?;
    request.header("x-api-key", handle).send()
}

rail_sdk::export!(Rail);
