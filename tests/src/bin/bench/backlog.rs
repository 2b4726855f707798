//! A claim at the head of a long queue, against one at the head of a short queue.

use anyhow::Result;

use crate::bed::{say, step};
use crate::cost::{Claimer, Pair, compare, limits};
use crate::large::{Large, SMALL_ROWS};
use crate::report::{Figure, Target};

pub(crate) const CLAIM_ROWS: i32 = 500;
pub(crate) const ROUNDS: usize = 30;

pub(crate) async fn run(large: &Large) -> Result<Vec<Figure>> {
    say("claim from a long queue");
    large.refill_small().await?;
    large.db.settle().await?;
    let mut ours = Claimer::new(&large.db).await?;
    let mut against = Claimer::new(&large.small).await?;
    let limits = limits(&["mtn"], CLAIM_ROWS);
    let pair = step("claims in turns", compare(&mut ours, &mut against, CLAIM_ROWS, &limits, ROUNDS)).await?;
    let what = format!(
        "claim of {CLAIM_ROWS} with {} pending and {} attempts, against {SMALL_ROWS} pending",
        large.pending_rows, large.history_rows
    );
    Ok(figures(["4a", "4b"], "backlog", &what, "", pair))
}

/// Time and buffers of one comparison.
pub(crate) fn figures(
    numbers: [&'static str; 2],
    scenario: &'static str,
    what: &str,
    note: &str,
    pair: Pair,
) -> Vec<Figure> {
    let Pair { times, buffers } = pair;
    [("time", "ms", times), ("buffers", "", buffers)]
        .into_iter()
        .zip(numbers)
        .map(|((kind, unit, (ours, against)), number)| Figure {
            number,
            scenario,
            what: format!("{what}: {kind}"),
            unit,
            ours,
            against,
            target: Target::AtMost(1.3),
            note: note.to_owned(),
        })
        .collect()
}
