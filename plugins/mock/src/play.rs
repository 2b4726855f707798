//! What a step does.

use std::thread::sleep;
use std::time::Duration;

use rail_sdk::{Answer, Instruction, RailCode, Violation, settings};

use crate::script::Step;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation {
    Disburse,
    Query,
}

/// The field under which the mock's codes stand in its table.
const CODE_FIELD: &str = "code";

/// Steps that refuse a payment do so before anything else happens to it.
pub(crate) fn validate(steps: &[Step]) -> Result<(), Vec<Violation>> {
    match steps.first() {
        Some(Step::Invalid(field)) => Err(vec![Violation::new(field, "refused by the script")]),
        _ => Ok(()),
    }
}

pub(crate) fn step(steps: &[Step], instruction: &Instruction, operation: Operation) -> Answer {
    let at = (instruction.attempt.max(1) as usize - 1).min(steps.len() - 1);
    act(&steps[at], instruction, operation)
}

fn act(step: &Step, instruction: &Instruction, operation: Operation) -> Answer {
    let code = |code: &Option<String>| code.as_deref().map(|value| RailCode::new(CODE_FIELD, value));
    let reference = || format!("mock-{}", &instruction.key.hex[..16]);
    match step {
        Step::Settled(value) => Answer::settled(reference(), code(value)),
        Step::Pending(value) => Answer::pending(Some(reference()), code(value)),
        Step::Declined(value) => Answer::declined(code(value), "declined by the script"),
        Step::Unclear(value) => Answer::unclear(code(value), "unclear by the script"),
        Step::NotFound => Answer::NotFound,
        Step::NotSent => Answer::NotSent("not sent by the script".to_owned()),
        Step::Invalid(field) => Answer::declined(None, format!("{field} was refused in validate")),
        Step::Delay(ms, then) => {
            sleep(Duration::from_millis(*ms));
            act(then, instruction, operation)
        }
        Step::Either(choices) => act(pick(choices, instruction), instruction, operation),
        Step::Trap => panic!("trap by the script"),
        Step::Spin => loop {
            std::hint::black_box(());
        },
        Step::Bomb => {
            let mut hoard = Vec::new();
            loop {
                hoard.push(std::hint::black_box(vec![1_u8; 1 << 20]));
            }
        }
        Step::Lie => match operation {
            Operation::Disburse => Answer::NotFound,
            Operation::Query => Answer::NotSent("a question that was not asked".to_owned()),
        },
    }
}

/// The same choice for the same seed, key and attempt: FNV-1a over the three, then a number below the sum of weights.
fn pick<'a>(choices: &'a [(u32, Step)], instruction: &Instruction) -> &'a Step {
    let seed = settings::get("seed").unwrap_or_default();
    let text = format!("{seed}/{}/{}", instruction.key.hex, instruction.attempt);
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
