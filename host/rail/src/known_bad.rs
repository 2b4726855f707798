//! What a host without a guard would do: tests leave guards out to see that they are missed.

use std::sync::Arc;

use faults::{Guard, is_left_out};
use form::{Form, Meaning, Reading, Side, Veto};

/// What a host would take an adapter's word for.
pub(crate) fn vetoed(reading: Reading) -> Reading {
    let meaning = match (reading.veto, reading.side()) {
        (Some(Veto::Opposite), Side::Paid) if is_left_out(Guard::AdapterOnlyBrakes) => Meaning::Terminal,
        (Some(Veto::Opposite), Side::NotPaid) if is_left_out(Guard::AdapterOnlyBrakes) => Meaning::Success,
        _ => return reading,
    };
    Reading { meaning: Some(meaning), veto: None, ..reading }
}

/// The form by which a host would read.
pub(crate) fn bound(form: Arc<Form>) -> Arc<Form> {
    match is_left_out(Guard::RepliesAreBound) {
        true => Arc::new(form.unbound()),
        false => form,
    }
}
