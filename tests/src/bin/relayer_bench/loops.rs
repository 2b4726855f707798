//! A rail whose adapter never ends beside an honest one, at a fifth of its load.

use anyhow::Result;

use crate::bed::{Bed, enqueue, rail};
use crate::slow::steady;
use crate::{list, median, row};

const PAYMENTS: usize = 500;

pub(crate) async fn run(bed: &Bed) -> Result<()> {
    let payments = bed.scale(PAYMENTS, 50);
    let (mut beside, mut alone) = (Vec::new(), Vec::new());
    for round in 0..bed.scale(3, 1) {
        let db = bed.fresh().await?;
        let looping = rail(64, 0).replace("otherwise: settled", "otherwise: spin");
        let host = bed.host(&db, &[("loops", looping), ("well", rail(64, 20))], None)?;
        steady(&db, "warm-up", 50).await?;
        alone.push(steady(&db, &format!("alone-{round}"), payments).await?);
        // All at once, so that there are as many of them under way as the rail gets.
        enqueue(&db, "loops", "loops", payments / 5).await?;
        beside.push(steady(&db, &format!("beside-{round}"), payments).await?);
        host.end()?;
    }
    row(
        "p99 from claim to durable verdict of a rail of 20 ms beside one of endless loops, against the same alone",
        &format!("{} ms", list(&beside, 1)),
        &format!("{} ms", list(&alone, 1)),
        &format!("{:.2}", median(&beside) / median(&alone)),
        "≤ 1.3",
    );
    Ok(())
}
