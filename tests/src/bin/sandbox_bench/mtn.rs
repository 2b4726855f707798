//! A request to pay through the `mtn` adapter with a token that is there, against the same exchange by plain hyper. Host,
//! simulator and client on one processor.

use std::sync::Arc;

use anyhow::{Result, ensure};
use form::Meaning;
use harness::mtn_client::MtnClient;
use harness::rail_run::{payment, rail_file, rails_folder};
use payment::{Instruction, PaymentIds};
use rail::definition::Definition;
use rail::{Loaded, Sandbox, SandboxOptions, Task};
use rail_simulators::{Name, Simulator, SimulatorOptions};
use uuid::Uuid;

use super::{Spread, meaning, on_one_core, ratio, row, timed};

pub(crate) fn run(calls: usize) -> Result<()> {
    let (ours, plain) = on_one_core(async move {
        let simulator = Simulator::start(SimulatorOptions::new(Name::Mtn)).await?;
        let folder = tempfile::tempdir()?;
        let sandbox = Sandbox::new(
            &folder.path().join("compiled"),
            harness::railhost_path(),
            SandboxOptions { calls_max: 4, ..SandboxOptions::default() },
        )?;
        let definition =
            Definition::parse("mtn", &rails_folder(), &rail_file(Name::Mtn, &simulator.base(), |_| {}))
                .map_err(anyhow::Error::msg)?;
        let loaded = Loaded::load(&sandbox, &definition).await?;
        let mut client = MtnClient::connect(&simulator).await?;
        let (mut through_us, mut natively) = (Vec::new(), Vec::new());
        for round in 0..calls + calls / 10 {
            let (attempt, took) = timed(loaded.call(&sandbox, Task::Disburse, new_payment()?, None)).await;
            ensure!(meaning(&attempt) == Some(Meaning::Pending), "{attempt:?}");
            let (paid, native_took) = timed(client.pay()).await;
            paid?;
            if round >= calls / 10 {
                through_us.push(took);
                natively.push(native_took);
            }
        }
        anyhow::Ok((Spread::of(through_us), Spread::of(natively)))
    })??;
    row(
        "MTN `disburse` with a cached token (fresh instance, `validate` before it), against the same exchange by plain hyper, one core",
        &ours.to_string(),
        &plain.to_string(),
        &format!("{:.1} ×", ratio(ours.p50(), plain.p50())),
        "≤ 2.5 ×",
    );
    Ok(())
}

fn new_payment() -> Result<Arc<Instruction>> {
    let ids = PaymentIds {
        outbox_id: Uuid::now_v7(),
        instruction_id: "i".to_owned(),
        participant_id: "p".to_owned(),
        sequence_id: 1,
    };
    let instruction = Instruction::read(ids, &payment(Name::Mtn, "10.50").to_string(), 1);
    Ok(Arc::new(instruction.map_err(|violations| anyhow::anyhow!("{violations:?}"))?))
}
