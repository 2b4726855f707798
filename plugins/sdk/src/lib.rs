//! What a rail adapter needs, and no rail's name.
//!
//! An adapter is a pure function: it implements [`Adapter`] and names itself in [`export!`]. It runs in a fresh instance per call,
//! without clock, randomness or network; the same input gives the same output. The host fills in the rail's form, sends it and
//! reads the reply; the adapter says what is wrong with a payment, fills in the variables that the form leaves to it, and reads
//! replies, too.
//!
//! ```ignore
//! struct Example;
//!
//! impl rail_sdk::Adapter for Example {
//!     fn describe() -> Description { Description::new("example", "1.0.0").facts(&["status"]) }
//!     fn read(_: Operation, _: &str, reply: &Reply) -> Result<Facts, String> {
//!         reply.facts(&[("status", "/status")])
//!     }
//! }
//!
//! rail_sdk::export!(Example);
//! ```

#![cfg_attr(not(any(test, feature = "std")), no_std)]

extern crate alloc;

pub mod arena;
pub mod describe;
pub mod payment;

/// What adapters use that `core` does not have. An adapter with `#![no_std]` imports nothing at all.
pub mod prelude {
    pub use alloc::borrow::{Cow, ToOwned};
    pub use alloc::boxed::Box;
    pub use alloc::string::{String, ToString};
    pub use alloc::vec::Vec;
    pub use alloc::{format, vec};
}

use prelude::*;

// For copying and comparing memory, which this target leaves to the C library. Nothing else of it is linked.
#[cfg(all(target_family = "wasm", not(any(test, feature = "std"))))]
#[link(name = "c")]
unsafe extern "C" {}

/// An adapter that fails is ended where it stands; the host says that it trapped.
#[cfg(all(target_family = "wasm", not(any(test, feature = "std"))))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

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

pub use bindings::exports::symphony::rail::adapter::{
    Description, Need, Operation, Payment, Reply, Value, Violation,
};

/// Facts or values by name.
pub type Facts = Vec<Value>;

#[cfg(target_family = "wasm")]
#[global_allocator]
static ARENA: arena::Arena = arena::Arena::new();

/// A rail adapter. The functions are told in `wit/1.0.0/adapter.wit`.
pub trait Adapter {
    fn describe() -> Description;

    /// All that is wrong at once. The fields of the rail file were compared before.
    fn validate(_: &Payment) -> Result<(), Vec<Violation>> {
        Ok(())
    }

    /// Values for the variables of the request that pays.
    fn disburse(_: &Payment) -> Result<Facts, String> {
        Ok(Facts::new())
    }

    /// Values for the variables of the request that asks.
    fn query_status(_: &Payment) -> Result<Facts, String> {
        Ok(Facts::new())
    }

    /// What a reply says, by the names of the rail file.
    fn read(operation: Operation, step: &str, reply: &Reply) -> Result<Facts, String>;
}

#[doc(hidden)]
pub struct Exported<A>(core::marker::PhantomData<A>);

impl<A: Adapter> bindings::exports::symphony::rail::adapter::Guest for Exported<A> {
    fn describe() -> Description {
        A::describe()
    }

    fn validate(payment: Payment) -> Result<(), Vec<Violation>> {
        A::validate(&payment)
    }

    fn disburse(payment: Payment) -> Result<Facts, String> {
        A::disburse(&payment)
    }

    fn query_status(payment: Payment) -> Result<Facts, String> {
        A::query_status(&payment)
    }

    fn read(operation: Operation, step: String, reply: Reply) -> Result<Facts, String> {
        A::read(operation, &step, &reply)
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
