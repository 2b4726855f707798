//! The WIT contract as Rust, and what its types are inside the host. The only place that knows both.

use form::{Form, Operation};
use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, ComponentNamedList, Instance, Lift, Lower};

use payment::{Instruction, Violation, plain};

use super::description::{Description, Need};
use super::guest::GuestState;
use verdict::call_error::CallError;

mod generated {
    #![allow(unreachable_pub, missing_debug_implementations, reason = "generated")]
    wasmtime::component::bindgen!({
        path: "../../wit/1.0.0",
        world: "rail-adapter",
        exports: { default: async },
    });
}

pub(super) use generated::exports::symphony::rail::adapter as wire;
pub(super) use generated::{RailAdapter, RailAdapterPre};

/// Longer texts of an adapter are cut, not refused: what it says about a payment matters more than how.
const TEXT_CHARS_MAX: usize = 256;
const PROSE_CHARS_MAX: usize = 2000;
/// Values and facts of one call.
const VALUES_MAX: usize = 100;

/// Where the functions that payments need stand in a component.
pub(super) struct Functions {
    pub validate: ComponentExportIndex,
    pub disburse: ComponentExportIndex,
    pub query_status: ComponentExportIndex,
    pub read: ComponentExportIndex,
}

impl Functions {
    /// None if one is missing.
    pub(super) fn find(component: &Component) -> Option<Self> {
        let adapter = component.get_export_index(None, "symphony:rail/adapter@1.0.0")?;
        let function = |name| component.get_export_index(Some(&adapter), name);
        Some(Self {
            validate: function("validate")?,
            disburse: function("disburse")?,
            query_status: function("query-status")?,
            read: function("read")?,
        })
    }
}

/// Calls one function of an instance. Its type is compared with the contract here: to do so with all functions of every instance
/// takes some two microseconds.
pub(super) async fn call<P, A>(
    function: &ComponentExportIndex,
    instance: &Instance,
    store: &mut Store<GuestState>,
    told: P,
) -> wasmtime::Result<A>
where
    P: ComponentNamedList + Lower + Send + Sync,
    (A,): ComponentNamedList + Lift + Send + Sync + 'static,
{
    let function = instance.get_typed_func::<P, (A,)>(&mut *store, function)?;
    Ok(function.call_async(store, told).await?.0)
}

/// What the rail file says that this rail needs of a payment, and nothing by which it could be told whose it is.
pub(super) fn payment(form: &Form, instruction: &Instruction) -> wire::Payment {
    wire::Payment {
        amount: instruction.money.amount().to_owned(),
        currency: instruction.money.currency().to_owned(),
        destination: form.normal_parts(&instruction.destination),
        narrative: instruction.narrative.clone(),
        payload: form.payload_values(instruction),
        settings: form.settings().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        attempt: form.is_mock.then_some(instruction.attempt),
    }
}

pub(super) fn operation(operation: Operation) -> wire::Operation {
    match operation {
        Operation::Disburse => wire::Operation::Disburse,
        Operation::QueryStatus => wire::Operation::QueryStatus,
    }
}

/// The adapter's values, as they are: what may stand in a request is for the form to say.
pub(super) fn values(values: Vec<(String, String)>) -> Result<Vec<(String, String)>, CallError> {
    match values.len() > VALUES_MAX {
        true => Err(CallError::BadAnswer(format!("more than {VALUES_MAX} values"))),
        false => Ok(values),
    }
}

pub(super) fn prose(text: String) -> String {
    cut(text, PROSE_CHARS_MAX)
}

/// Cut, and without what PostgreSQL does not store or a terminal would obey.
fn cut(text: String, chars_max: usize) -> String {
    // A message over several lines stays readable in one.
    let line: String = text
        .chars()
        .take(chars_max)
        .map(|char| if char.is_control() && char.is_whitespace() { ' ' } else { char })
        .collect();
    plain(&line).into_owned()
}

pub(super) fn violations(found: Vec<wire::Violation>) -> Result<Vec<Violation>, CallError> {
    if found.is_empty() {
        return Err(CallError::BadAnswer("a refusal without a violation".to_owned()));
    }
    let violation = |violation: wire::Violation| Violation {
        field: cut(violation.field, TEXT_CHARS_MAX),
        problem: prose(violation.problem),
    };
    Ok(found.into_iter().take(VALUES_MAX).map(violation).collect())
}

pub(super) fn description(said: wire::Description) -> Description {
    let needs = |needs: Vec<wire::Need>| -> Vec<Need> {
        let need = |need: wire::Need| Need {
            name: cut(need.name, TEXT_CHARS_MAX),
            required: need.required,
            purpose: prose(need.purpose),
        };
        needs.into_iter().take(VALUES_MAX).map(need).collect()
    };
    Description {
        name: cut(said.name, TEXT_CHARS_MAX),
        version: cut(said.version, TEXT_CHARS_MAX),
        currencies: said.currencies.into_iter().take(300).map(|code| cut(code, 3)).collect(),
        settings: needs(said.settings),
        variables: needs(said.variables),
        facts: said.facts.into_iter().take(VALUES_MAX).map(|name| cut(name, TEXT_CHARS_MAX)).collect(),
    }
}
