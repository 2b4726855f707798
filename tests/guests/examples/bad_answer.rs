//! Settles without a reference.

use rail_sdk::{Answer, Instruction};

fn disburse(_: &Instruction) -> Answer {
    Answer::settled("", None)
}

guests::guest!(disburse);
