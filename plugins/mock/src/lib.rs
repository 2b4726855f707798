//! A rail without a network, for demonstrations, tests and QA: it plays the timeline that a script gives to a payment.
//! The language of scripts is told in [`script`].

mod play;
mod script;

use rail_sdk::{Adapter, Answer, Description, Instruction, Need, Violation};

use script::Script;

struct Mock;

impl Adapter for Mock {
    fn describe() -> Description {
        Description::new("mock", env!("CARGO_PKG_VERSION"))
            .setting(Need::optional("script", "rules, one a line: WHO: STEP, STEP, …"))
            .setting(Need::optional("seed", "decides what `either` picks; any text"))
    }

    fn validate(instruction: &Instruction) -> Result<(), Vec<Violation>> {
        let script = match Script::of_settings() {
            Ok(script) => script,
            Err(problem) => return Err(vec![Violation::new("settings.script", problem)]),
        };
        play::validate(&script.steps_for(instruction))
    }

    fn disburse(instruction: &Instruction) -> Answer {
        Self::play(instruction, play::Operation::Disburse)
    }

    fn query_status(instruction: &Instruction) -> Answer {
        Self::play(instruction, play::Operation::Query)
    }
}

impl Mock {
    fn play(instruction: &Instruction, operation: play::Operation) -> Answer {
        let script = match Script::of_settings() {
            Ok(script) => script,
            Err(problem) => return Answer::unclear(None, format!("settings.script: {problem}")),
        };
        play::step(&script.steps_for(instruction), instruction, operation)
    }
}

rail_sdk::export!(Mock);
