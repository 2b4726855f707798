//! The integrator's kit: whether an adapter and its rail file come to the right verdicts, found out offline with recorded
//! exchanges.
//!
//! - [`case`]: a recorded exchange · [`mod@replay`]: plays the rail · [`mod@bench`]: the adapter · [`rules`]: what must hold · [`report`]: what was found
//!
//! ```
//! use conformance::{Case, Expected, ExpectedClass};
//!
//! let case: Case = serde_json::from_str(r#"{
//!     "operation": "disburse",
//!     "payment": { "amount": "10.5", "currency": "ZMW", "destination": { "msisdn": "260961234567" } },
//!     "reply": { "status": 202, "body": { "status": "PENDING" } },
//!     "expect": { "class": "pending" }
//! }"#)?;
//! assert_eq!(case.instruction().money.amount(), "10.50");
//! let code = Some("PENDING".to_owned());
//! let found = Expected { class: ExpectedClass::Pending, code, reference: None, differs: false };
//! assert!(case.expect.is_met_by(&found), "a code that is not expected is not looked at");
//! # Ok::<(), serde_json::Error>(())
//! ```

mod bench;
mod case;
mod replay;
mod report;
mod rules;

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use rail::artifact::{self, Outline};
use rail::definition::{Definition, Profile};
use rail::{LoadError, Loaded, Sandbox};
use verdict::digest::Digest;

use bench::{TestBench, call};
pub use case::{Case, CaseOperation, CaseReply, Expected, ExpectedClass};
use replay::ReplayedExchanges;
pub use report::{Finding, RuleResult, SuiteReport};

/// Tests a component. Without a rail file only what can be read from the component itself is tested, and the report says
/// what was not.
pub async fn run(
    sandbox: Sandbox,
    component: &Path,
    definition: Option<Definition>,
    cases: Vec<Case>,
) -> Result<SuiteReport, LoadError> {
    let bytes = artifact::read(component)?;
    let digest = Digest::of(&bytes);
    let mut report = SuiteReport::new(digest);
    let outline = Outline::read(&bytes)?;
    let profile = definition.as_ref().map_or(Profile::Strict, |definition| definition.file.profile);
    outline.check(profile)?;
    report.passed("contract", "exports the adapter interface; imports only the stubs that the host provides");

    let Some(definition) = definition else {
        report.not_tested(rules::NAMES, "no rail file was given (--rail)");
        return Ok(report);
    };
    let path = std::path::absolute(component).unwrap_or_else(|_| component.to_owned());
    let definition = definition.with_component(&path, &digest);
    let replay = Arc::new(ReplayedExchanges::default());
    let loaded = Loaded::offline(&sandbox, &definition, replay.clone()).await?;
    report.adapter = Some(loaded.description.clone());
    let bench = TestBench { sandbox, loaded, replay, definition, cases };
    rules::all(&bench, &mut report).await;
    Ok(report)
}

/// Whether a component and a rail file come to what the recorded exchanges expect that the file names: what was approved before is
/// judged the same, or the pair is not taken.
pub fn examine<'e>(sandbox: &'e Sandbox, definition: &'e Definition) -> BoxFuture<'e, Result<(), LoadError>> {
    Box::pin(async move {
        let Some(place) = &definition.file.exchanges else { return Ok(()) };
        let cases = Case::load_all(&definition.path(place)).map_err(LoadError::Exchanges)?;
        let replay = Arc::new(ReplayedExchanges::default());
        let loaded = Loaded::offline(sandbox, definition, replay.clone()).await?;
        for case in cases {
            let attempt = call(sandbox, &loaded, &replay, &case).await;
            if let Some(why) = rules::differs(&case, &attempt) {
                return Err(LoadError::Judged(format!("{}: {why}", case.name)));
            }
        }
        Ok(())
    })
}

/// What each recorded exchange comes to with a component and a rail file, in their order.
pub async fn replay(
    sandbox: Sandbox,
    component: &Path,
    definition: Definition,
    cases: Vec<Case>,
) -> Result<Vec<(Case, Expected)>, LoadError> {
    let digest = Digest::of(&artifact::read(component)?);
    let path = std::path::absolute(component).unwrap_or_else(|_| component.to_owned());
    let definition = definition.with_component(&path, &digest);
    let replay = Arc::new(ReplayedExchanges::default());
    let loaded = Loaded::offline(&sandbox, &definition, replay.clone()).await?;
    let bench = TestBench { sandbox, loaded, replay, definition, cases: Vec::new() };
    let mut judged = Vec::new();
    for case in cases {
        let attempt = bench.call(&case).await;
        let found = Expected::found(&case, &attempt);
        judged.push((case, found));
    }
    Ok(judged)
}
