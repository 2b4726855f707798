//! What the guests share: a rail with one endpoint to pay at, and the shortest way to be an adapter.

use rail_sdk::http::{Failure, Request, Response};
use rail_sdk::{Answer, Instruction, RailCode, settings};
use serde_json::json;

/// Where the rail is.
pub fn base() -> String {
    settings::required("base")
}

/// A request to pay, as the rail's file expects it.
pub fn pay(instruction: &Instruction) -> Request {
    let body = json!({
        "amount": instruction.amount.amount,
        "currency": instruction.amount.currency,
        "payee": instruction.destination.part("msisdn"),
        "key": instruction.key.uuid,
    });
    Request::post(format!("{}/pay", base()))
        .header("x-reference-id", instruction.key.uuid.clone())
        .json(&body)
}

/// What was heard, with the status as a code.
pub fn tell(reply: Result<Response, Failure>) -> Answer {
    match reply {
        Ok(reply) if reply.status() == 200 => {
            let body = String::from_utf8_lossy(reply.body()).into_owned();
            Answer::settled(body, Some(RailCode::new("status", "200")))
        }
        Ok(reply) => Answer::unclear(Some(RailCode::new("status", reply.status().to_string())), "not paid"),
        Err(failure) => match failure {
            Failure::Denied(why) => Answer::NotSent(format!("denied: {why}")),
            Failure::NotSent(why) => Answer::NotSent(format!("not sent: {why}")),
            Failure::MaybeSent(why) => Answer::unclear(None, format!("maybe sent: {why}")),
            Failure::Limit(why) => Answer::unclear(None, format!("limit: {why}")),
        },
    }
}

/// Makes an adapter of a function to disburse, and of one to validate if there is any.
#[macro_export]
macro_rules! guest {
    ($disburse:ident) => {
        fn valid(_: &rail_sdk::Instruction) -> Result<(), Vec<rail_sdk::Violation>> {
            Ok(())
        }
        $crate::guest!(valid, $disburse);
    };
    ($validate:ident, $disburse:ident) => {
        struct Guest;

        impl rail_sdk::Adapter for Guest {
            fn describe() -> rail_sdk::Description {
                rail_sdk::Description::new(env!("CARGO_CRATE_NAME"), "1.0.0")
            }

            fn validate(instruction: &rail_sdk::Instruction) -> Result<(), Vec<rail_sdk::Violation>> {
                $validate(instruction)
            }

            fn disburse(instruction: &rail_sdk::Instruction) -> rail_sdk::Answer {
                $disburse(instruction)
            }

            fn query_status(instruction: &rail_sdk::Instruction) -> rail_sdk::Answer {
                $disburse(instruction)
            }
        }

        rail_sdk::export!(Guest);
    };
}
