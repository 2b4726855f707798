//! What the guests share: the shortest way to be an adapter of the test rail, which says what it has to say in a plain text.

use rail_sdk::{Facts, Payment, Reply};

/// An honest adapter has nothing to add.
pub fn nothing(_: &Payment) -> Result<Facts, String> {
    Ok(Facts::new())
}

/// The text of a reply.
pub fn text(reply: &Reply) -> Result<Facts, String> {
    let text = String::from_utf8_lossy(&reply.body).trim().to_owned();
    Ok(vec![("text".to_owned(), text)])
}

/// A value for the one variable that the rail file declares.
pub fn note(value: impl Into<String>) -> Result<Facts, String> {
    Ok(vec![("note".to_owned(), value.into())])
}

/// Makes an adapter of a function to disburse, and of one to read if there is any.
#[macro_export]
macro_rules! guest {
    ($disburse:path) => {
        $crate::guest!($disburse, $crate::text);
    };
    ($disburse:path, $read:path) => {
        struct Guest;

        impl rail_sdk::Adapter for Guest {
            fn describe() -> rail_sdk::Description {
                rail_sdk::Description::new(env!("CARGO_CRATE_NAME"), "1.0.0")
                    .variable(rail_sdk::Need::optional("note", "whatever it has to say"))
                    .facts(&["text"])
            }

            fn disburse(payment: &rail_sdk::Payment) -> Result<rail_sdk::Facts, String> {
                $disburse(payment)
            }

            fn read(
                _: rail_sdk::Operation,
                _: &str,
                reply: &rail_sdk::Reply,
            ) -> Result<rail_sdk::Facts, String> {
                $read(reply)
            }
        }

        rail_sdk::export!(Guest);
    };
}
