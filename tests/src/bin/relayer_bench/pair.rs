use anyhow::Result;

use crate::bed::{Bed, ask, enqueue, rail, until};
use crate::{list, median, row};

/// While all hosts are at work: between a fifth and four fifths of the verdicts.
const RATE: &str = "select 0.6 * count(*) / extract(epoch from
                      percentile_disc(0.8) within group (order by completed_at)
                      - percentile_disc(0.2) within group (order by completed_at))
                    from symphony.payment_outbox_attempts";

pub(crate) async fn run(bed: &Bed) -> Result<()> {
    let (mut two, mut one) = (Vec::new(), Vec::new());
    for _ in 0..bed.scale(3, 1) {
        for (hosts, samples) in [(2, &mut two), (1, &mut one)] {
            let db = bed.fresh().await?;
            enqueue(&db, "mock", "i", bed.scale(8_000, 1_000) * hosts).await?;
            let running = (0..hosts)
                .map(|_| bed.host(&db, &[("mock", rail(32, 20))], None))
                .collect::<Result<Vec<_>>>()?;
            until(&db, "select count(*) from symphony.payment_outbox_pending", |rows| rows == 0.0).await?;
            for host in running {
                host.end()?;
            }
            samples.push(ask(&db, RATE).await?);
        }
    }
    row(
        "two hosts, 32 calls of 20 ms at a time each, against one",
        &format!("{} /s", list(&two, 0)),
        &format!("{} /s", list(&one, 0)),
        &format!("{:.2}", median(&two) / median(&one)),
        "≥ 1.8",
    );
    Ok(())
}
