//! Rows that must not be leased at the head of the queue: suspended, then paused, then strictly ordered ones besides.

use std::time::Instant;

use anyhow::Result;
use outbox::operate::{Operator, Reason};

use crate::backlog::{CLAIM_ROWS, ROUNDS, figures};
use crate::bed::{say, step};
use crate::cost::{Claimer, compare, limits};
use crate::large::{GROUPS, Group, HELD_PARTICIPANTS, Large};
use crate::report::Report;

pub(crate) async fn run(large: &Large, report: &mut Report) -> Result<()> {
    let operator = large.db.operator();
    for (group, numbers) in GROUPS.into_iter().zip([["5a", "5b"], ["5c", "5d"], ["5e", "5f"]]) {
        say(&format!("claim with {} rows ahead", group.name));
        // A host serves both rails; it names the paused one as well, for the database knows better.
        let rails: &[&str] = if group.name == "suspended" { &["mtn"] } else { &["airtel", "mtn"] };
        let started = Instant::now();
        step("throwing the switch, reconciling", hold(&operator, group)).await?;
        let reconciled_s = started.elapsed().as_secs_f64();
        step("a vacuum, as autovacuum would", large.db.execute("vacuum symphony.payment_outbox_pending"))
            .await?;
        large.refill_small().await?;
        large.db.settle().await?;
        let mut ours = Claimer::new(&large.db).await?;
        let mut against = Claimer::new(&large.small).await?;
        let limits = limits(rails, CLAIM_ROWS);
        let pair =
            step("claims in turns", compare(&mut ours, &mut against, CLAIM_ROWS, &limits, ROUNDS)).await?;
        let what = format!("the same with {} {} rows ahead", group.rows(large.pending_rows), group.name);
        let note = format!("switch and reconcile_parking took {reconciled_s:.0} s");
        report.add(figures(numbers, "ahead", &what, &note, pair))?;
    }
    Ok(())
}

async fn hold(operator: &Operator, group: Group) -> Result<()> {
    let reason = Reason { by: "bench".to_owned(), why: "to measure".to_owned() };
    match group.name {
        "paused" => operator.pause_rail(group.rail, &reason).await?,
        held => {
            for participant in (0..HELD_PARTICIPANTS).map(|n| format!("{held}-{n}")) {
                if held == "suspended" {
                    operator.suspend_participant(&participant, &reason).await?;
                } else {
                    operator.order_strictly(&participant, true, &reason).await?;
                }
            }
        }
    }
    while operator.reconcile_parking().await? > 0 {}
    Ok(())
}
