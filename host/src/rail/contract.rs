//! The WIT contract as Rust, and what its types are inside the host. The only place that knows both.

use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, ComponentNamedList, Instance, Lift};

use crate::payment::{Instruction, KeyForm, Violation, plain};

use super::call::{Answer, Code, Description, Need};
use super::error::CallError;
use super::host::State;
use super::limits::Timeouts;

mod generated {
    #![allow(unreachable_pub, missing_debug_implementations, reason = "generated")]
    wasmtime::component::bindgen!({
        path: "../wit/1.0.0",
        world: "rail-adapter",
        imports: {
            "symphony:rail/http.send": async | trappable,
            "symphony:rail/tokens.current": async | trappable,
            default: trappable,
        },
        exports: { default: async },
    });
}

pub(super) use generated::exports::symphony::rail::adapter as exported;
pub(super) use generated::symphony::rail as imported;
pub(super) use generated::{RailAdapter, RailAdapterPre};
use imported::types as wire;

/// Longer texts of an adapter are cut, not refused: what it says about a payment matters more than how.
const TEXT_CHARS_MAX: usize = 256;
const PROSE_CHARS_MAX: usize = 2000;

/// Where the functions that payments need stand in a component.
pub(super) struct Functions {
    pub validate: ComponentExportIndex,
    pub disburse: ComponentExportIndex,
    pub query_status: ComponentExportIndex,
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
        })
    }
}

/// Calls one function of an instance. Its type is compared with the contract here: to do so with all functions of every instance
/// takes some two microseconds.
pub(super) async fn call<A>(
    function: &ComponentExportIndex,
    instance: &Instance,
    store: &mut Store<State>,
    told: &wire::Instruction,
) -> wasmtime::Result<A>
where
    (A,): ComponentNamedList + Lift + Send + Sync + 'static,
{
    let function = instance.get_typed_func::<(&wire::Instruction,), (A,)>(&mut *store, function)?;
    Ok(function.call_async(store, (told,)).await?.0)
}

pub(super) fn instruction(instruction: &Instruction, timeouts: &Timeouts) -> wire::Instruction {
    let origin = &instruction.origin;
    wire::Instruction {
        outbox_id: origin.outbox_id.to_string(),
        instruction_id: origin.instruction_id.clone(),
        participant_id: origin.participant_id.clone(),
        sequence_id: origin.sequence_id,
        key: wire::RailKey {
            hex: instruction.key.form(KeyForm::Hex),
            hex32: instruction.key.form(KeyForm::Hex32),
            uuid: instruction.key.form(KeyForm::Uuid),
        },
        amount: wire::Money {
            amount: instruction.money.amount().to_owned(),
            currency: instruction.money.currency().to_owned(),
        },
        destination: wire::Destination {
            plain: instruction.destination.plain.clone(),
            fields: instruction.destination.fields.clone(),
        },
        narrative: instruction.narrative.clone(),
        payload: instruction.payload.0.clone(),
        attempt: instruction.attempt,
        deadline_ms: timeouts.call_ms,
    }
}

pub(super) fn answer_to_disburse(answer: wire::Answer) -> Result<Answer, CallError> {
    match answer {
        wire::Answer::NotFound => Err(CallError::BadAnswer("not-found from disburse".to_owned())),
        other => answer_of(other),
    }
}

pub(super) fn answer_to_query(answer: wire::Answer) -> Result<Answer, CallError> {
    match answer {
        wire::Answer::NotSent(_) => Err(CallError::BadAnswer("not-sent from query-status".to_owned())),
        other => answer_of(other),
    }
}

fn answer_of(answer: wire::Answer) -> Result<Answer, CallError> {
    Ok(match answer {
        wire::Answer::Settled(said) => {
            let reference = reference(said.reference)?;
            Answer::Settled { reference, code: code(said.code)? }
        }
        wire::Answer::Pending(said) => {
            Answer::Pending { reference: said.reference.map(reference).transpose()?, code: code(said.code)? }
        }
        wire::Answer::Declined(said) => {
            Answer::Declined { code: code(said.code)?, message: prose(said.message) }
        }
        wire::Answer::NotFound => Answer::NotFound,
        wire::Answer::NotSent(reason) => Answer::NotSent { reason: prose(reason) },
        wire::Answer::Unclear(said) => Answer::Unclear { code: code(said.code)?, detail: prose(said.detail) },
    })
}

fn reference(text: String) -> Result<String, CallError> {
    match text.trim() {
        "" => Err(CallError::BadAnswer("an empty reference".to_owned())),
        _ => Ok(cut(text, TEXT_CHARS_MAX)),
    }
}

/// A code is looked up in a table: one that was cut could be found as another.
fn code(code: Option<wire::RailCode>) -> Result<Option<Code>, CallError> {
    let Some(code) = code else { return Ok(None) };
    let fits = |text: &str| (1..=TEXT_CHARS_MAX).contains(&text.chars().count());
    if !fits(&code.field) || !fits(&code.value) {
        return Err(CallError::BadAnswer(format!(
            "a code whose field or value has not 1 to {TEXT_CHARS_MAX} characters"
        )));
    }
    Ok(Some(Code { field: cut(code.field, TEXT_CHARS_MAX), value: cut(code.value, TEXT_CHARS_MAX) }))
}

fn prose(text: String) -> String {
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
    Ok(found.into_iter().take(100).map(violation).collect())
}

pub(super) fn description(said: exported::Description) -> Description {
    let needs = |needs: Vec<exported::Need>| -> Vec<Need> {
        let need = |need: exported::Need| Need {
            name: cut(need.name, TEXT_CHARS_MAX),
            required: need.required,
            purpose: prose(need.purpose),
        };
        needs.into_iter().take(100).map(need).collect()
    };
    Description {
        name: cut(said.name, TEXT_CHARS_MAX),
        version: cut(said.version, TEXT_CHARS_MAX),
        currencies: said.currencies.into_iter().take(300).map(|code| cut(code, 3)).collect(),
        can_query: said.can_query,
        settings: needs(said.settings),
        secrets: needs(said.secrets),
        keys: needs(said.keys),
        tokens: needs(said.tokens),
    }
}
