//! What the history says about the payments of the demo.

use std::time::Duration;

use railhost::outbox::read::Ending;
use uuid::Uuid;

use crate::cli::print::{self, seconds};

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

/// The id of a payment carries the time of its acceptance.
fn took(ending: &Ending) -> Option<Duration> {
    let (second, nanosecond) = ending.outbox_id.get_timestamp()?.to_unix();
    let accepted_at = chrono::DateTime::from_timestamp(second.try_into().ok()?, nanosecond)?;
    (ending.ended_at? - accepted_at).to_std().ok()
}

pub(super) fn what_next(endings: &[Ending]) {
    let me = std::env::args().next().unwrap_or_else(|| "railhost".to_owned());
    let first = |what: &dyn Fn(&Ending) -> bool| endings.iter().find(|ending| what(ending));
    let looked_at = first(&|ending| ending.taken_over)
        .or_else(|| endings.first())
        .map_or_else(Uuid::nil, |ending| ending.outbox_id);
    println!(
        "\nThe books are kept. Look further:
  {me} --dev status
  {me} --dev timeline {looked_at}     # a payment of the killed host
  {me} --dev gaps
  {me} --dev serve                    # carries what you enqueue meanwhile:
  {me} --dev enqueue --instruction inv-1 --participant acme --rail mock \\
      --payload '{{\"amount\":\"12.50\",\"currency\":\"ZMW\",\"destination\":\"260971234567\"}}'
  {me} --help"
    );
}
