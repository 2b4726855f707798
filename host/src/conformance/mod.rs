//! The integrator's kit: whether an adapter keeps the contract, found out offline with its rail's file and recorded
//! exchanges.
//!
//! - [`case`]: a recorded exchange · [`replay`]: plays the rail · [`rules`]: what must hold · [`report`]: what was found

mod case;
mod replay;
mod report;
mod rules;

use std::path::Path;
use std::sync::Arc;

use crate::rail::artifact::{self, Digest, Outline};
use crate::rail::definition::{Definition, Profile};
use crate::rail::{Attempt, LoadError, Loaded, Sandbox, Task};

pub use case::{Case, Operation};
use replay::{Play, Replay};
pub use report::{Finding, Report, Verdict};

/// An adapter on the bench.
#[derive(Debug)]
pub struct Bench {
    sandbox: Sandbox,
    loaded: Loaded,
    replay: Arc<Replay>,
    definition: Definition,
    cases: Vec<Case>,
}

/// Tests a component. Without a rail's file only what can be read from the component itself is tested, and the report says
/// what was not.
pub async fn run(
    sandbox: Sandbox,
    component: &Path,
    definition: Option<Definition>,
    cases: Vec<Case>,
) -> Result<Report, LoadError> {
    let bytes = artifact::read(component)?;
    let digest = Digest::of(&bytes);
    let mut report = Report::new(digest);
    let outline = Outline::read(&bytes)?;
    let profile = definition.as_ref().map_or(Profile::Strict, |definition| definition.file.profile);
    outline.check(profile)?;
    report.passed("contract", "exports the adapter, imports nothing that is not granted");

    let Some(definition) = definition else {
        report.not_tested(rules::NAMES, "no rail's file was given (--rail)");
        return Ok(report);
    };
    let path = std::path::absolute(component).unwrap_or_else(|_| component.to_owned());
    let definition = definition.with_component(&path, &digest);
    let replay = Arc::new(Replay::default());
    let loaded = Loaded::offline(&sandbox, &definition, replay.clone()).await?;
    report.adapter = Some(loaded.description.clone());
    let bench = Bench { sandbox, loaded, replay, definition, cases };
    rules::all(&bench, &mut report).await;
    Ok(report)
}

impl Bench {
    /// One call, with the rail played by `play`. An exchange stands for itself: it begins without a token.
    async fn call(&self, case: &Case, task: Task, play: Play) -> Attempt {
        self.loaded.forget_sessions();
        self.replay.begin(play);
        self.loaded.call(&self.sandbox, task, case.instruction(), None).await
    }

    fn of(&self, operation: Operation) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(move |case| case.operation == operation)
    }
}
