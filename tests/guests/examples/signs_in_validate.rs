//! Has messages signed before there is a payment to send.

use rail_sdk::vault::{self, Problem};
use rail_sdk::{Answer, Instruction, Violation};

fn sign() -> [Result<Vec<u8>, Problem>; 2] {
    [vault::hmac("hmac", b"anything"), vault::sign("signature", b"anything")]
}

fn validate(_: &Instruction) -> Result<(), Vec<Violation>> {
    let refused: Vec<_> = sign()
        .into_iter()
        .filter_map(Result::err)
        .map(|problem| Violation::new("vault", format!("{problem:?}")))
        .collect();
    match refused.is_empty() {
        true => Ok(()),
        false => Err(refused),
    }
}

fn disburse(_: &Instruction) -> Answer {
    match sign() {
        [Ok(_), Ok(_)] => Answer::unclear(None, "signed"),
        refused => Answer::unclear(None, format!("{refused:?}")),
    }
}

guests::guest!(validate, disburse);
