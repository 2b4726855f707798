//! Wherever it can say something, it says what a terminal would obey.

use rail_sdk::{Adapter, Answer, Description, Instruction, Need, Violation};

const CLEARS: &str = "\u{1b}[2J\u{9b}31m\u{202e}reversed\u{7}";

struct Guest;

impl Adapter for Guest {
    fn describe() -> Description {
        Description::new(&format!("name{CLEARS}"), &format!("1{CLEARS}"))
            .currencies(&["Z\u{1b}W"])
            .setting(Need::optional(&format!("setting{CLEARS}"), &format!("purpose{CLEARS}")))
    }

    fn validate(_: &Instruction) -> Result<(), Vec<Violation>> {
        Ok(())
    }

    fn disburse(_: &Instruction) -> Answer {
        rail_sdk::log::info(&format!("line{CLEARS}"), &[(&format!("field{CLEARS}"), CLEARS)]);
        println!("output{CLEARS}");
        panic!("panic{CLEARS}")
    }

    fn query_status(_: &Instruction) -> Answer {
        Answer::unclear(None, format!("detail{CLEARS}"))
    }
}

rail_sdk::export!(Guest);
