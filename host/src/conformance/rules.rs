//! What must hold of every adapter. Each rule says what it saw, or why it could not look.

use std::time::Duration;

use super::case::{Case, Operation, Said};
use super::replay::{Fault, Play};
use super::{Bench, Report};
use crate::rail::egress::Class;
use crate::rail::{Answer, Attempt, Heard, Rule, Task};

/// In the order in which they are tried.
pub(super) const NAMES: [&str; 11] = [
    RECORDED,
    KEY_ONCE,
    DECLARED,
    NO_MONEY_ELSEWHERE,
    EXACT_AMOUNTS,
    SILENCE,
    UNREACHABLE,
    UNLISTED,
    GARBAGE,
    NO_STATE,
    IN_TIME,
];

const RECORDED: &str = "recorded-answers";
const KEY_ONCE: &str = "key-unchanged-once";
const DECLARED: &str = "declared-hosts-only";
const NO_MONEY_ELSEWHERE: &str = "money-only-in-disburse";
const EXACT_AMOUNTS: &str = "amounts-exact";
const SILENCE: &str = "silence-is-unclear";
const UNREACHABLE: &str = "unreachable-is-not-sent";
const UNLISTED: &str = "unlisted-code-as-given";
const GARBAGE: &str = "garbage-is-unclear";
const NO_STATE: &str = "no-state";
const IN_TIME: &str = "within-its-limits";

/// A code that no rail has.
const STRANGE_CODE: &str = "ZZ_NO_SUCH_CODE_77";
/// The smallest, one that floats get wrong, one above what 32 bits hold, one above what a float holds exactly.
const AMOUNTS: [&str; 8] =
    ["1", "0.01", "0.10", "1.15", "100.00", "42949672.97", "90071992547409.93", "999999999"];

pub(super) async fn all(bench: &Bench, report: &mut Report) {
    report.cases = bench.cases.len();
    let mut watch = Watch::default();
    recorded(bench, report, &mut watch).await;
    no_money_elsewhere(bench, report, &mut watch).await;
    exact_amounts(bench, report, &mut watch).await;
    silence(bench, report, &mut watch).await;
    unreachable(bench, report, &mut watch).await;
    unlisted(bench, report, &mut watch).await;
    garbage(bench, report, &mut watch).await;
    no_state(bench, report, &mut watch).await;
    watch.report(report);
    report
        .findings
        .sort_by_key(|finding| NAMES.iter().position(|name| *name == finding.rule).map_or(0, |at| at + 1));
}

/// What is looked at in every call, whatever rule it is made for.
#[derive(Default)]
struct Watch {
    calls: usize,
    money_calls: usize,
    strange_hosts: Option<(String, Vec<String>)>,
    denied: Option<(String, Vec<String>)>,
    excesses: Vec<String>,
    took: Vec<Duration>,
}

impl Watch {
    async fn call(&mut self, bench: &Bench, case: &Case, task: Task, play: Play) -> Attempt {
        let attempt = bench.call(case, task, play).await;
        self.calls += 1;
        self.took.push(attempt.took);
        self.money_calls += usize::from(attempt.witness.money().is_some());
        for denied in &attempt.witness.denied {
            let found = match denied.rule {
                Rule::Endpoint => &mut self.strange_hosts,
                // Another rule tells of it.
                Rule::MoneyElsewhere => continue,
                _ => &mut self.denied,
            };
            let refused = || (format!("{}: the gate refused: {}", case.name, denied.why), exchange(bench));
            found.get_or_insert_with(refused);
        }
        if let Heard::Failed(error) = &attempt.heard {
            self.excesses.push(format!("{}: {error}", case.name));
        }
        attempt
    }

    fn report(mut self, report: &mut Report) {
        self.took.sort_unstable();
        match self.strange_hosts {
            Some((why, exchange)) => report.failed(DECLARED, why, exchange),
            None if self.calls == 0 => report.not_tested([DECLARED], "nothing was called"),
            None => report.passed(DECLARED, "nothing was tried that the rail's file does not list"),
        }
        match self.denied {
            Some((why, exchange)) => report.failed(KEY_ONCE, why, exchange),
            None if self.money_calls == 0 => {
                report.not_tested([KEY_ONCE], "no recorded exchange reached a money endpoint");
            }
            None => report.passed(
                KEY_ONCE,
                format!(
                    "{} requests to pay, each once, with key, amount, currency and payee as instructed",
                    self.money_calls
                ),
            ),
        }
        match self.excesses.into_iter().next() {
            Some(why) => report.failed(IN_TIME, why, Vec::new()),
            None if self.calls == 0 => report.not_tested([IN_TIME], "nothing was called"),
            None => {
                let ms = |took: Option<&Duration>| took.map_or(0.0, |took| took.as_secs_f64() * 1e3);
                let (median, longest) = (ms(self.took.get(self.took.len() / 2)), ms(self.took.last()));
                report.passed(
                    IN_TIME,
                    format!("{} calls, none failed or met a limit; median {median:.2} ms, longest {longest:.2} ms", self.calls),
                );
            }
        }
    }
}

fn exchange(bench: &Bench) -> Vec<String> {
    bench.replay.asked().into_iter().map(|(endpoint, request)| format!("{endpoint}: {request}")).collect()
}

/// The recorded cases in which the rail was asked to pay, and at which endpoint.
fn payments(bench: &Bench) -> Vec<(&Case, &str)> {
    let endpoints = &bench.definition.endpoints;
    let money =
        |name: &str| endpoints.iter().any(|endpoint| endpoint.name == name && endpoint.class == Class::Money);
    bench
        .of(Operation::Disburse)
        .filter_map(|case| {
            let reply = case.replies.iter().find(|reply| money(&reply.endpoint))?;
            Some((case, reply.endpoint.as_str()))
        })
        .collect()
}

/// The recorded cases in which it was asked what became of a payment, and where its answer was.
fn questions(bench: &Bench) -> Vec<(&Case, &str)> {
    bench
        .of(Operation::QueryStatus)
        .filter_map(|case| case.replies.last().map(|reply| (case, reply.endpoint.as_str())))
        .collect()
}

async fn recorded(bench: &Bench, report: &mut Report, watch: &mut Watch) {
    if bench.cases.is_empty() {
        return report.not_tested([RECORDED], "no recorded exchanges were given (--exchanges)");
    }
    for case in &bench.cases {
        let attempt = watch.call(bench, case, case.operation.task(), Play::as_recorded(&case.replies)).await;
        if let Some(problem) = differs(case, &attempt.heard) {
            return report.failed(RECORDED, format!("{}: {problem}", case.name), exchange(bench));
        }
    }
    report.passed(RECORDED, format!("{} of {} answered as expected", bench.cases.len(), bench.cases.len()));
}

fn differs(case: &Case, heard: &Heard) -> Option<String> {
    let expected = &case.expect;
    let (said, code, reference) = match heard {
        Heard::Answer(answer) => (Said::of(answer), code(answer), reference(answer)),
        Heard::Valid => (Said::Valid, None, None),
        Heard::Invalid(_) => (Said::Invalid, None, None),
        Heard::Failed(error) => return Some(format!("expected {:?}, but it {error}", expected.answer)),
    };
    if said != expected.answer {
        return Some(format!("expected {:?}, heard {heard:?}", expected.answer));
    }
    if let Some(wanted) = &expected.code
        && !wanted.is(code)
    {
        return Some(format!("expected code {} = {}, heard {code:?}", wanted.field, wanted.value));
    }
    match &expected.reference {
        Some(wanted) if reference != Some(wanted) => {
            Some(format!("expected reference {wanted}, heard {reference:?}"))
        }
        _ => None,
    }
}

fn code(answer: &Answer) -> Option<&crate::rail::Code> {
    match answer {
        Answer::Settled { code, .. }
        | Answer::Pending { code, .. }
        | Answer::Declined { code, .. }
        | Answer::Unclear { code, .. } => code.as_ref(),
        Answer::NotFound | Answer::NotSent { .. } => None,
    }
}

fn reference(answer: &Answer) -> Option<&String> {
    match answer {
        Answer::Settled { reference, .. } => Some(reference),
        Answer::Pending { reference, .. } => reference.as_ref(),
        _ => None,
    }
}

/// What an adapter asks while it validates or enquires is refused at the gate if it could move money.
async fn no_money_elsewhere(bench: &Bench, report: &mut Report, watch: &mut Watch) {
    let mut tried = 0;
    for case in bench.of(Operation::Disburse) {
        for task in [Task::Validate, Task::Query] {
            tried += 1;
            let attempt = watch.call(bench, case, task, Play::as_recorded(&case.replies)).await;
            let elsewhere = attempt.witness.denied.iter().find(|denied| denied.rule == Rule::MoneyElsewhere);
            if let Some(denied) = elsewhere {
                let problem = format!("{}: {}", case.name, denied.why);
                return report.failed(NO_MONEY_ELSEWHERE, problem, exchange(bench));
            }
        }
    }
    match tried {
        0 => report.not_tested([NO_MONEY_ELSEWHERE], "no recorded disbursement was given"),
        _ => report.passed(NO_MONEY_ELSEWHERE, format!("{tried} validations and questions moved nothing")),
    }
}

async fn exact_amounts(bench: &Bench, report: &mut Report, watch: &mut Watch) {
    let Some((case, _)) = payments(bench).into_iter().next() else {
        return report.not_tested([EXACT_AMOUNTS], "no recorded exchange reaches a money endpoint");
    };
    let (mut sent, mut refused) = (0, 0);
    for edge in AMOUNTS.iter().filter_map(|amount| case.with_amount(amount)) {
        let attempt = watch.call(bench, &edge, Task::Disburse, Play::as_recorded(&edge.replies)).await;
        let amount = &edge.payment["amount"];
        match (&attempt.heard, attempt.witness.money()) {
            (Heard::Invalid(_), None) => refused += 1,
            (_, Some(_)) if attempt.witness.denied.is_empty() => sent += 1,
            (heard, _) => {
                let denied = attempt.witness.denied.first();
                let seen = denied.map_or_else(|| format!("{heard:?}"), |denied| denied.why.clone());
                return report.failed(
                    EXACT_AMOUNTS,
                    format!("{amount} was neither sent nor refused: {seen}"),
                    exchange(bench),
                );
            }
        }
    }
    report.passed(
        EXACT_AMOUNTS,
        format!("{sent} amounts at the edges were sent digit by digit, {refused} refused by validate"),
    );
}

async fn silence(bench: &Bench, report: &mut Report, watch: &mut Watch) {
    let all = [payments(bench), questions(bench)].concat();
    if payments(bench).is_empty() {
        return report.not_tested([SILENCE], "no recorded exchange reaches a money endpoint");
    }
    for (case, endpoint) in &all {
        let play = Play::with(&case.replies, endpoint, Fault::Silence);
        let attempt = watch.call(bench, case, case.operation.task(), play).await;
        if !matches!(attempt.heard, Heard::Answer(Answer::Unclear { .. })) {
            let problem = format!(
                "{}: no reply from {endpoint}, expected unclear, heard {:?}",
                case.name, attempt.heard
            );
            return report.failed(SILENCE, problem, exchange(bench));
        }
    }
    report.passed(SILENCE, format!("{} silences were reported as unclear", all.len()));
}

async fn unreachable(bench: &Bench, report: &mut Report, watch: &mut Watch) {
    let payments = payments(bench);
    if payments.is_empty() {
        return report.not_tested([UNREACHABLE], "no recorded exchange reaches a money endpoint");
    }
    for (case, endpoint) in &payments {
        let play = Play::with(&case.replies, endpoint, Fault::Unreachable);
        let attempt = watch.call(bench, case, Task::Disburse, play).await;
        if !matches!(attempt.heard, Heard::Answer(Answer::NotSent { .. } | Answer::Unclear { .. })) {
            let problem =
                format!("{}: nothing could be sent, expected not-sent, heard {:?}", case.name, attempt.heard);
            return report.failed(UNREACHABLE, problem, exchange(bench));
        }
    }
    report.passed(
        UNREACHABLE,
        format!("{} disbursements without a connection were reported so", payments.len()),
    );
}

/// A code that nobody has seen before must come through as it is, or be unclear: the host's table decides, and an unlisted
/// code is no final no.
async fn unlisted(bench: &Bench, report: &mut Report, watch: &mut Watch) {
    let mut tried = 0;
    for case in &bench.cases {
        let Some(wanted) = &case.expect.code else { continue };
        let mut replies = case.replies.clone();
        let Some(reply) = replies.iter_mut().rev().find(|reply| reply.text().contains(&wanted.value)) else {
            continue;
        };
        reply.body = reply.text().replace(&wanted.value, STRANGE_CODE).into();
        tried += 1;
        let attempt = watch.call(bench, case, case.operation.task(), Play::as_recorded(&replies)).await;
        let fine = match &attempt.heard {
            Heard::Answer(Answer::Unclear { .. }) => true,
            Heard::Answer(Answer::Declined { code, .. } | Answer::Pending { code, .. }) => {
                code.as_ref().is_some_and(|code| code.value == STRANGE_CODE)
            }
            _ => false,
        };
        if !fine {
            let problem = format!(
                "{}: with {STRANGE_CODE} in place of {}, expected unclear or that code as it is, heard {:?}",
                case.name, wanted.value, attempt.heard
            );
            return report.failed(UNLISTED, problem, exchange(bench));
        }
    }
    match tried {
        0 => report.not_tested([UNLISTED], "no recorded exchange expects a code that stands in its reply"),
        _ => report.passed(UNLISTED, format!("{tried} strange codes came through as they are")),
    }
}

async fn garbage(bench: &Bench, report: &mut Report, watch: &mut Watch) {
    let wrecks = [
        (500, "<html><body>Internal Server Error</body></html>"),
        (200, "{\"trunc"),
        (200, "[]"),
        (502, ""),
        (302, ""),
    ];
    let mut tried = 0;
    for (case, endpoint) in [payments(bench), questions(bench)].concat() {
        for (status, body) in wrecks {
            tried += 1;
            let play = Play::with(&case.replies, endpoint, Fault::Says(status, body.to_owned()));
            let attempt = watch.call(bench, case, case.operation.task(), play).await;
            let fine = match &attempt.heard {
                Heard::Answer(Answer::Unclear { .. }) => true,
                // A refusal by its HTTP status alone is the table's to judge.
                Heard::Answer(Answer::Declined { code, .. } | Answer::Pending { code, .. }) => code.is_some(),
                _ => false,
            };
            if !fine {
                let problem = format!(
                    "{}: HTTP {status} with {body:?}, expected unclear, heard {:?}",
                    case.name, attempt.heard
                );
                return report.failed(GARBAGE, problem, exchange(bench));
            }
        }
    }
    match tried {
        0 => report.not_tested([GARBAGE], "no recorded exchange has a reply to spoil"),
        _ => report.passed(GARBAGE, format!("{tried} spoilt replies were not taken for an answer")),
    }
}

async fn no_state(bench: &Bench, report: &mut Report, watch: &mut Watch) {
    if bench.cases.is_empty() {
        return report.not_tested([NO_STATE], "no recorded exchanges were given (--exchanges)");
    }
    // Backwards, so that each case is preceded by another one than before.
    for case in bench.cases.iter().rev() {
        let attempt = watch.call(bench, case, case.operation.task(), Play::as_recorded(&case.replies)).await;
        if let Some(problem) = differs(case, &attempt.heard) {
            return report.failed(
                NO_STATE,
                format!("{}: after other payments: {problem}", case.name),
                exchange(bench),
            );
        }
    }
    report.passed(NO_STATE, "the answers do not depend on what was asked before");
}
