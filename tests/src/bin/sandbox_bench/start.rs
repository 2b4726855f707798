//! From bytes to an adapter that has described itself, with compiled code at hand and without.

use anyhow::{Result, ensure};
use harness::adapter_rig::{AdapterRig, guest};

use super::{Spread, micros, row, timed};

pub(crate) fn run(rounds: usize) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let (mut cold, mut warm) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let rig = AdapterRig::new().await;
            let file = rig.file(&guest("pays_and_tells"), "");
            let (loaded, took) = timed(rig.load_file(&file)).await;
            ensure!(!loaded?.was_warm);
            cold.push(took);
            for _ in 0..10 {
                let (loaded, took) = timed(rig.load_file(&file)).await;
                ensure!(loaded?.was_warm);
                warm.push(took);
            }
        }
        let (cold, warm) = (Spread::of(cold), Spread::of(warm));
        row(
            "start of an adapter with a warm cache, against compiling",
            &micros(warm.p50()),
            &micros(cold.p50()),
            &format!("1/{:.0}", cold.p50().as_secs_f64() / warm.p50().as_secs_f64()),
            "≤ 1/50",
        );
        Ok(())
    })
}
