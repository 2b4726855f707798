//! An adapter on the bench, and a recorded exchange played to it.

use std::sync::Arc;

use rail::definition::Definition;
use rail::{CallReport, Captures, Loaded, Sandbox};

use super::case::{Case, CaseOperation};
use super::replay::ReplayedExchanges;

/// An adapter on the bench.
#[derive(Debug)]
pub(super) struct TestBench {
    pub sandbox: Sandbox,
    pub loaded: Loaded,
    pub replay: Arc<ReplayedExchanges>,
    pub definition: Definition,
    pub cases: Vec<Case>,
}

impl TestBench {
    pub(super) async fn call(&self, case: &Case) -> CallReport {
        call(&self.sandbox, &self.loaded, &self.replay, case).await
    }
}

/// Plays a case from its beginning.
pub(super) async fn call(
    sandbox: &Sandbox,
    loaded: &Loaded,
    replay: &ReplayedExchanges,
    case: &Case,
) -> CallReport {
    replay.begin(case);
    if case.operation == CaseOperation::Callback
        && let (Some(callback), Some(told)) = (&loaded.form.callback, &case.reply)
    {
        let headers = told.headers.clone().into_iter().collect();
        return loaded
            .read_callback(sandbox, callback, case.instruction(), headers, told.bytes().into())
            .await;
    }
    let captures = Captures::knowing(&case.captured);
    let task = case.operation.task();
    let mut attempt = loaded.call_with(sandbox, task, case.instruction(), None, captures).await;
    if let Some(last) = attempt.witness.exchanges.last_mut() {
        last.token_is_fresh = case.token_is_fresh.or(last.token_is_fresh);
    }
    attempt
}
