//! What a rail adapter needs, and no rail's name.
//!
//! An adapter implements [`Adapter`] and names itself in [`export!`]. It runs in a fresh instance per attempt, single
//! threaded and without async: [`http::Request::send`] returns when the reply is there.
//!
//! ```ignore
//! struct Example;
//!
//! impl rail_sdk::Adapter for Example {
//!     fn describe() -> Description { Description::new("example", "1.0.0") }
//!     fn validate(instruction: &Instruction) -> Result<(), Vec<Violation>> { Ok(()) }
//!     fn disburse(instruction: &Instruction) -> Answer { … }
//!     fn query_status(instruction: &Instruction) -> Answer { … }
//! }
//!
//! rail_sdk::export!(Example);
//! ```

pub mod answer;
pub mod describe;
pub mod destination;
pub mod http;
pub mod log;
pub mod money;
pub mod msisdn;
pub mod settings;
pub mod tokens;
pub mod vault;

#[doc(hidden)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/1.0.0",
        world: "rail-adapter",
        pub_export_macro: true,
        export_macro_name: "export_adapter",
        default_bindings_module: "rail_sdk::bindings",
    });
}

pub use bindings::exports::symphony::rail::adapter::{Description, Need};
pub use bindings::symphony::rail::types::{
    Answer, Declined, Destination, Instruction, Money, Pending, RailCode, RailKey, Settled, Unclear,
    Violation,
};

/// A rail adapter. The functions are told in `wit/1.0.0/adapter.wit`.
pub trait Adapter {
    fn describe() -> Description;

    /// All that is wrong at once.
    fn validate(instruction: &Instruction) -> Result<(), Vec<Violation>>;

    fn disburse(instruction: &Instruction) -> Answer;

    fn query_status(instruction: &Instruction) -> Answer;
}

#[doc(hidden)]
pub struct Exported<A>(core::marker::PhantomData<A>);

impl<A: Adapter> bindings::exports::symphony::rail::adapter::Guest for Exported<A> {
    fn describe() -> Description {
        A::describe()
    }

    fn validate(instruction: Instruction) -> Result<(), Vec<Violation>> {
        A::validate(&instruction)
    }

    fn disburse(instruction: Instruction) -> Answer {
        A::disburse(&instruction)
    }

    fn query_status(instruction: Instruction) -> Answer {
        A::query_status(&instruction)
    }
}

/// Makes a type that implements [`Adapter`] the component's adapter.
#[macro_export]
macro_rules! export {
    ($adapter:ident) => {
        type ExportedAdapter = $crate::Exported<$adapter>;
        $crate::bindings::export_adapter!(ExportedAdapter with_types_in $crate::bindings);
    };
}
