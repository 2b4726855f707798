//! Wherever it can say something, it says what a terminal would obey.

use rail_sdk::{Adapter, Description, Facts, Need, Operation, Payment, Reply, Violation};

const CLEARS: &str = "\u{1b}[2J\u{9b}31m\u{202e}reversed\u{7}";

struct Guest;

impl Adapter for Guest {
    fn describe() -> Description {
        Description::new(&format!("name{CLEARS}"), &format!("1{CLEARS}"))
            .setting(Need::optional(&format!("setting{CLEARS}"), &format!("purpose{CLEARS}")))
            .variable(Need::optional("note", CLEARS))
            .facts(&[&format!("fact{CLEARS}")])
    }

    fn validate(payment: &Payment) -> Result<(), Vec<Violation>> {
        match payment.amount.as_str() {
            "1.00" => Err(vec![Violation::new(&format!("field{CLEARS}"), format!("problem{CLEARS}"))]),
            _ => Ok(()),
        }
    }

    fn disburse(_: &Payment) -> Result<Facts, String> {
        println!("output{CLEARS}");
        panic!("panic{CLEARS}")
    }

    fn read(_: Operation, _: &str, _: &Reply) -> Result<Facts, String> {
        Err(CLEARS.to_owned())
    }
}

rail_sdk::export!(Guest);
