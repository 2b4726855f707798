//! What must hold of every adapter and its rail file. Each rule says what it saw, or why it could not look.

use std::collections::BTreeSet;
use std::time::Duration;

use form::{HTTP, Meaning, Row};

use super::bench::TestBench;
use super::case::{Case, CaseOperation, Expected, ExpectedClass};
use super::report::SuiteReport;
use rail::CallReport;
use verdict::answer::CallResult;
use verdict::call_error::CallError;
use verdict::error_code::ErrorCode;
use verdict::witness::GateRule;

/// In the order in which they are tried.
pub(super) const NAMES: [&str; 8] =
    [RECORDED, EVERY_CLASS, EVERY_FACT, NO_VETO, DECLARED, FORM_FILLED, SAME_AGAIN, IN_TIME];

const RECORDED: &str = "recorded-verdicts";
const EVERY_CLASS: &str = "every-class-recorded";
const EVERY_FACT: &str = "every-fact-recorded";
const NO_VETO: &str = "reads-as-the-host";
const DECLARED: &str = "declared-values-only";
const FORM_FILLED: &str = "form-filled-in";
const SAME_AGAIN: &str = "same-again";
const IN_TIME: &str = "within-its-limits";

/// All that was seen of the recorded exchanges.
#[derive(Default)]
struct Observations {
    /// What each comes to that does not come to what it expects, with what was sent.
    wrong: Vec<(String, Vec<String>)>,
    vetoed: Option<String>,
    undeclared: Option<String>,
    differing: Option<String>,
    excess: Option<String>,
    classes: BTreeSet<(CaseOperation, &'static str)>,
    facts: BTreeSet<String>,
    verdicts: usize,
    took: Vec<Duration>,
}

pub(super) async fn all(bench: &TestBench, report: &mut SuiteReport) {
    report.cases = bench.cases.len();
    let mut watch = Observations::default();
    for case in &bench.cases {
        watch.look_at(bench, case).await;
    }
    match watch.wrong.len() {
        0 if bench.cases.is_empty() => report.not_tested([RECORDED], "no exchanges were given (--exchanges)"),
        0 => report.passed(RECORDED, "every recorded exchange reaches its expected verdict"),
        wrong => {
            let why =
                format!("{wrong} of {} exchanges did not reach the expected verdict", bench.cases.len());
            let lines = watch.wrong.iter().flat_map(|(why, sent)| std::iter::once(why).chain(sent));
            report.failed(RECORDED, why, lines.cloned().collect());
        }
    }
    every_class(bench, report, &watch);
    every_fact(bench, report, &watch);
    match &watch.vetoed {
        Some(why) => report.failed(NO_VETO, why, Vec::new()),
        None if watch.verdicts == 0 => {
            report.not_tested([NO_VETO], "no recorded exchange comes to a verdict")
        }
        None => report.passed(NO_VETO, format!("{} verdicts, none vetoed by the adapter", watch.verdicts)),
    }
    match &watch.undeclared {
        Some(why) => report.failed(DECLARED, why, Vec::new()),
        None if watch.took.is_empty() => report.not_tested([DECLARED], "nothing was called"),
        None => report.passed(DECLARED, "the adapter set only variables that the rail file declares"),
    }
    form_filled(bench, report);
    match &watch.differing {
        Some(why) => report.failed(SAME_AGAIN, why, Vec::new()),
        None if watch.took.is_empty() => report.not_tested([SAME_AGAIN], "nothing was called"),
        None => report.passed(SAME_AGAIN, "the same input gives the same output"),
    }
    watch.took.sort_unstable();
    match watch.excess {
        Some(why) => report.failed(IN_TIME, why, Vec::new()),
        None if watch.took.is_empty() => report.not_tested([IN_TIME], "nothing was called"),
        None => {
            let ms = |took: Option<&Duration>| took.map_or(0.0, |took| took.as_secs_f64() * 1e3);
            let (median, longest) = (ms(watch.took.get(watch.took.len() / 2)), ms(watch.took.last()));
            report.passed(IN_TIME, format!("calls took {median:.2} ms, {longest:.2} ms at most"));
        }
    }
}

impl Observations {
    async fn look_at(&mut self, bench: &TestBench, case: &Case) {
        let report = bench.call(case).await;
        let exchange = bench.replay.asked();
        let again = bench.call(case).await;
        if told(&report) != told(&again) {
            self.differing.get_or_insert(format!("{}: two calls differ", case.name));
        }
        self.took.push(report.took);
        if let CallResult::Failed(error) = &report.heard
            && !matches!(error, CallError::BadValue(_))
        {
            self.excess.get_or_insert(format!("{}: it {error}", case.name));
        }
        if let Some(denied) = report.witness.denied.iter().find(|denied| denied.rule == GateRule::Variable) {
            self.undeclared.get_or_insert(format!("{}: {}", case.name, denied.why));
        }
        if let CallResult::Reading(reading) | CallResult::Unprepared { reading, .. } = &report.heard {
            self.facts.extend(reading.facts.iter().map(|fact| fact.field.clone()));
            if reading.facts.is_empty() && reading.meaning.is_some() {
                self.facts.insert(HTTP.to_owned());
            }
            if let Some(meaning) = reading.meaning {
                self.classes.insert((case.operation, meaning.as_str()));
            }
            self.verdicts += usize::from(reading.side() != form::Side::Open);
            if reading.veto.is_some() {
                let why = format!("{}: {}", case.name, report.heard);
                self.vetoed.get_or_insert(why);
            }
        }
        if let Some(why) = differs(case, &report) {
            self.wrong.push((format!("{}: {why}", case.name), exchange));
        }
    }
}

fn told(report: &CallReport) -> String {
    format!("{:?} {:?}", report.heard, report.log)
}

/// What a case expects and did not get.
pub(super) fn differs(case: &Case, report: &CallReport) -> Option<String> {
    let Expected { class, code, reference, differs } = &case.expect;
    if case.operation == CaseOperation::Validate {
        let found = match &report.heard {
            CallResult::Valid => ExpectedClass::Valid,
            CallResult::Invalid(_) => ExpectedClass::Invalid,
            other => return Some(format!("found that {other}, wanted {class}")),
        };
        return (found != *class).then(|| format!("found {found}, wanted {class}"));
    }
    let decision = case.operation.judge(report);
    let found = ExpectedClass::of(&decision);
    let said = match decision.message.as_deref() {
        None | Some("") => "no fact of the file is in the reply",
        Some(said) => said,
    };
    if found != *class {
        let code = decision.rail_code.as_deref().unwrap_or("none");
        return Some(format!("found {found} with code {code} ({said}), wanted {class}"));
    }
    if code.is_some() && *code != decision.rail_code {
        return Some(format!("found code {}, wanted {}", or_none(&decision.rail_code), or_none(code)));
    }
    if reference.is_some() && *reference != decision.rail_reference {
        let found = or_none(&decision.rail_reference);
        return Some(format!("found reference {found}, wanted {}", or_none(reference)));
    }
    let echoed = decision.error_code == Some(ErrorCode::EchoDiffers);
    let shown = |differs: bool| if differs { "another amount or payee" } else { "what was instructed" };
    (*differs != echoed)
        .then(|| format!("found that the rail repeats {}, wanted {}", shown(echoed), shown(*differs)))
}

fn or_none(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or("none")
}

/// Every class that the table knows of an operation has an exchange that comes to it.
fn every_class(bench: &TestBench, report: &mut SuiteReport, watch: &Observations) {
    let form = &bench.definition.form;
    let mut lacking = BTreeSet::new();
    for Row { operation, class, .. } in &form.codes.rows {
        let operation = match operation {
            form::Operation::Disburse => CaseOperation::Disburse,
            form::Operation::QueryStatus if form.can_query() => CaseOperation::QueryStatus,
            form::Operation::QueryStatus if form.callback.is_some() => CaseOperation::Callback,
            form::Operation::QueryStatus => continue,
        };
        // What is merely heard of is pending where nothing says more.
        let class = if *class == Meaning::Received { Meaning::Pending } else { *class };
        if !watch.classes.contains(&(operation, class.as_str())) {
            lacking.insert(format!("{} {}", operation.as_str(), class.as_str()));
        }
    }
    match lacking.is_empty() {
        _ if bench.cases.is_empty() => {
            report.not_tested([EVERY_CLASS], "no exchanges were given (--exchanges)")
        }
        true => report.passed(EVERY_CLASS, "the exchanges come to every class of the code table"),
        false => {
            let lacking = lacking.into_iter().collect::<Vec<_>>().join(", ");
            report.not_tested([EVERY_CLASS], &format!("no exchange reaches: {lacking}"));
        }
    }
}

/// Every path of the file leads to something in at least one exchange: a path with a slip of the pen reads nothing, ever.
fn every_fact(bench: &TestBench, report: &mut SuiteReport, watch: &Observations) {
    let names = bench.definition.form.fact_names();
    let lacking: Vec<String> = names.into_iter().filter(|name| !watch.facts.contains(name)).collect();
    match lacking.is_empty() {
        _ if bench.cases.is_empty() => {
            report.not_tested([EVERY_FACT], "no exchanges were given (--exchanges)")
        }
        true => report.passed(EVERY_FACT, "every fact of the rail file is read in some exchange"),
        false => {
            let why = format!("no exchange has a fact {}", lacking.join(", "));
            report.failed(EVERY_FACT, format!("{why}: is its path right?"), Vec::new());
        }
    }
}

/// The form takes a payment in each of its currencies.
fn form_filled(bench: &TestBench, report: &mut SuiteReport) {
    let form = &bench.definition.form;
    let wrong = form.currencies.iter().find_map(|currency| form.example(currency).err());
    match wrong {
        Some(why) => report.failed(FORM_FILLED, why, Vec::new()),
        None => report.passed(FORM_FILLED, "railhost plugin form shows a worked example per currency"),
    }
}
