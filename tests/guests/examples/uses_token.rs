//! Fetches a token where there is none, and pays with it.

use guests::{base, pay, tell};
use rail_sdk::http::Request;
use rail_sdk::{Answer, Instruction};

fn disburse(instruction: &Instruction) -> Answer {
    let (user, password) = (rail_sdk::vault::handle("user"), rail_sdk::vault::handle("password"));
    let basic = format!("Basic {}:{}", user.expect("configured"), password.expect("configured"));
    let fetch = || Request::post(format!("{}/token", base())).header("authorization", basic).send();
    match rail_sdk::tokens::current("access", fetch) {
        Ok(handle) => tell(pay(instruction).bearer(&handle).send()),
        Err(rail_sdk::tokens::NoToken::Refused(reply)) => {
            Answer::NotSent(format!("no token: {}", String::from_utf8_lossy(reply.body())))
        }
        Err(other) => Answer::NotSent(format!("no token: {other:?}")),
    }
}

guests::guest!(disburse);
