//! What a step does.

use rail_sdk::prelude::*;
use rail_sdk::{Facts, Operation, Payment, Violation};

use crate::script::Step;

/// Steps that refuse a payment do so before anything else happens to it.
pub(crate) fn validate(steps: &[Step]) -> Result<(), Vec<Violation>> {
    match steps.first() {
        Some(Step::Invalid(field)) => Err(vec![Violation::new(field, "refused by the script")]),
        _ => Ok(()),
    }
}

pub(crate) fn step(steps: &[Step], payment: &Payment, operation: Operation) -> Result<Facts, String> {
    let at = (payment.attempt.unwrap_or(1).max(1) as usize - 1).min(steps.len() - 1);
    act(&steps[at], payment, operation)
}

fn act(step: &Step, payment: &Payment, operation: Operation) -> Result<Facts, String> {
    let value = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let said = |status: &str, code: &Option<String>| {
        let code = code.as_deref().map(|code| value("code", code));
        core::iter::once(value("status", status)).chain(code).collect::<Facts>()
    };
    Ok(match step {
        Step::Settled(code) => said("settled", code),
        Step::Pending(code) => said("pending", code),
        Step::Unclear(code) => said("unclear", code),
        Step::NotFound => said("not-found", &None),
        // A rail that turns a payment away at its door has not taken it: only a code says what that means for the key.
        Step::Declined(Some(code)) if operation == Operation::Disburse => {
            vec![value("code", code), value("http", "422")]
        }
        Step::Declined(None) if operation == Operation::Disburse => {
            vec![value("status", "declined"), value("http", "422")]
        }
        Step::Declined(code) => said("declined", code),
        Step::NotSent => vec![value("fault", "unreachable")],
        Step::Silent => vec![value("fault", "silence")],
        Step::Lie => vec![value("status", "settled"), value("read", "declined")],
        Step::Invalid(field) => return Err(format!("{field} was refused in validate")),
        Step::Delay(ms, then) => {
            let mut said = act(then, payment, operation)?;
            said.push(value("wait_ms", &ms.to_string()));
            said
        }
        Step::Either(choices) => act(pick(choices, payment), payment, operation)?,
        Step::Trap => panic!("trap by the script"),
        Step::Spin => loop {
            core::hint::black_box(());
        },
        Step::Bomb => {
            let mut hoard = Vec::new();
            loop {
                hoard.push(core::hint::black_box(vec![1_u8; 1 << 20]));
            }
        }
    })
}

/// The same choice for the same seed, payee, amount and attempt: FNV-1a over them, then a number below the sum of weights.
fn pick<'a>(choices: &'a [(u32, Step)], payment: &Payment) -> &'a Step {
    let seed = payment.setting("seed").unwrap_or_default();
    let text = format!("{seed}/{:?}/{}/{:?}", payment.destination, payment.amount, payment.attempt);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let sum: u64 = choices.iter().map(|(weight, _)| u64::from(*weight)).sum();
    let mut left = (hash >> 16) % sum;
    for (weight, step) in choices {
        match left.checked_sub(u64::from(*weight)) {
            None => return step,
            Some(rest) => left = rest,
        }
    }
    unreachable!("the number is below the sum of the weights")
}
