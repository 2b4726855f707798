//! What the history and the rails' ledgers say about the payments of the demo.

use std::collections::HashMap;
use std::time::Duration;

use outbox::read::Ending;
use payment::RailKey;
use rail_simulators::{Audit, Booked, RequestCounts};
use uuid::Uuid;

use super::rails::{RAILS, SimulatedRail};

use terminal::print::{self, seconds};

/// Nothing lost, nothing twice, no number missing.
pub(super) fn holds(endings: &[Ending], gaps: usize) -> bool {
    gaps == 0 && endings.iter().all(|ending| ending.verdicts == 1)
}

pub(super) fn table(endings: &[Ending], gaps: usize) -> String {
    let count = |what: &dyn Fn(&Ending) -> bool| endings.iter().filter(|ending| what(ending)).count();
    let state = |name: &'static str| move |ending: &Ending| ending.state.as_deref() == Some(name);
    let in_review =
        |ending: &Ending| state("FAILED")(ending) && ending.money_moved.as_deref() == Some("unknown");
    let mut took: Vec<Duration> = endings.iter().filter_map(took).collect();
    took.sort_unstable();
    let at = |share: f64| {
        let place = (took.len().saturating_sub(1) as f64 * share) as usize;
        took.get(place).map_or_else(String::new, |time| seconds(time.as_secs_f64()))
    };
    let line = |name: &str, value: String| vec![name.to_owned(), value];
    print::table(
        &["payments", "by the history"],
        &[
            line("accepted", endings.len().to_string()),
            line("dispatched", count(&state("DISPATCHED")).to_string()),
            line("failed, no money moved", (count(&state("FAILED")) - count(&in_review)).to_string()),
            line("failed, for a person to look at", count(&in_review).to_string()),
            line("tried or asked about more than once", count(&|ending| ending.retried).to_string()),
            line("taken over from the killed host", count(&|ending| ending.taken_over).to_string()),
            line("lost", count(&|ending| ending.verdicts == 0).to_string()),
            line("with two verdicts", count(&|ending| ending.verdicts > 1).to_string()),
            line("gaps in the streams", gaps.to_string()),
            line("from acceptance to verdict, half of them", at(0.5)),
            line("from acceptance to verdict, 99 of 100", at(0.99)),
        ],
    )
}

/// Each simulator's ledger against our books, payment by payment. `accepted` is in the order of acceptance.
pub(super) fn audits(
    played: &[SimulatedRail],
    accepted: &[Uuid],
    endings: &[Ending],
) -> Vec<(&'static str, Audit, RequestCounts)> {
    let booked: HashMap<Uuid, Booked> = endings
        .iter()
        .map(|ending| (ending.outbox_id, Booked::of(ending.state.as_deref(), ending.money_moved.as_deref())))
        .collect();
    let of_rail = |played: &SimulatedRail| {
        let place = RAILS.iter().position(|rail| *rail == played.rail).unwrap_or_default();
        let ours = accepted.iter().skip(place).step_by(RAILS.len());
        let books = ours
            .map(|id| (RailKey::of(*id).form(played.form), booked.get(id).copied().unwrap_or(Booked::Open)))
            .collect();
        (played.rail, Audit::of(&played.simulator.entries(), &books), played.simulator.counts())
    };
    played.iter().map(of_rail).collect()
}

pub(super) fn ledgers(audits: &[(&str, Audit, RequestCounts)]) -> String {
    let line = |name: &str, audit: &Audit, requests: u64, faults: u64| {
        vec![
            name.to_owned(),
            requests.to_string(),
            faults.to_string(),
            audit.paid.to_string(),
            audit.lost.to_string(),
            audit.doubled.to_string(),
            (audit.disagreed + audit.orphaned + audit.conflicting).to_string(),
        ]
    };
    let faults = |counts: &RequestCounts| counts.faults.values().sum::<u64>();
    let mut lines: Vec<_> = audits
        .iter()
        .map(|(rail, audit, counts)| line(rail, audit, counts.requests, faults(counts)))
        .collect();
    let together = audits.iter().fold(Audit::default(), |sum, (_, audit, _)| sum.plus(audit));
    let (asked, spoilt) = audits
        .iter()
        .fold((0, 0), |(asked, spoilt), (_, _, counts)| (asked + counts.requests, spoilt + faults(counts)));
    lines.push(line("together", &together, asked, spoilt));
    print::table(
        &[
            "by the rails' ledgers",
            "requests to pay",
            "replies spoilt",
            "paid",
            "lost",
            "doubled",
            "disagreed",
        ],
        &lines,
    )
}

/// The id of a payment carries the time of its acceptance.
fn took(ending: &Ending) -> Option<Duration> {
    let (second, nanosecond) = ending.outbox_id.get_timestamp()?.to_unix();
    let accepted_at = chrono::DateTime::from_timestamp(second.try_into().ok()?, nanosecond)?;
    (ending.ended_at? - accepted_at).to_std().ok()
}

pub(super) fn what_next(endings: &[Ending]) -> String {
    let me = std::env::args().next().unwrap_or_else(|| "railhost".to_owned());
    let first = |what: &dyn Fn(&Ending) -> bool| endings.iter().find(|ending| what(ending));
    let (looked_at, what) = match (first(&|ending| ending.taken_over), first(&|ending| ending.retried)) {
        (Some(ending), _) => (ending.outbox_id, "a payment of the killed host"),
        (None, Some(ending)) => (ending.outbox_id, "a payment that took more than one attempt"),
        (None, None) => (endings.first().map_or_else(Uuid::nil, |ending| ending.outbox_id), "a payment"),
    };
    format!(
        "\nThe books are kept. Look further:
  {me} --dev status
  {me} --dev timeline {looked_at}     # {what}
  {me} --dev gaps
  {me} --dev serve                    # carries what you enqueue meanwhile:
  {me} --dev enqueue --instruction inv-1 --participant acme --rail mock \\
      --payload '{{\"amount\":\"12.50\",\"currency\":\"ZMW\",\"destination\":\"260971234567\"}}'
  {me} --help\n"
    )
}
