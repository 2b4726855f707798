//! Plays with what the rail said when it took no payment at all. Such a hold is no attempt: it stands beside the history.

use std::collections::HashMap;

use harness::rail_run::{Ended, RailRun, payment};
use harness::{Db, DbUser};
use rail_simulators::Name;
use uuid::Uuid;

/// How a payment ended, and what was written of its first reply.
pub(crate) struct Told {
    pub(crate) ended: Ended,
    pub(crate) first: Option<String>,
}

impl Told {
    /// State and whether money moved.
    pub(crate) fn verdict(&self) -> String {
        format!("{} {}", self.ended.state, self.ended.money_moved)
    }
}

/// Every payment gets the timeline beside it; a hold, if there is one, comes first in all of these.
pub(crate) async fn play(rail: Name, plans: &[String]) -> Vec<Told> {
    let amounts: Vec<_> = (1..=plans.len()).map(|n| format!("{n}.00")).collect();
    let rules: Vec<_> =
        amounts.iter().zip(plans).map(|(amount, plan)| format!("amount {amount}: {plan}")).collect();
    let play = RailRun::start(rail, &rules.join("\n")).await;
    play.pay(&amounts.iter().map(|amount| payment(rail, amount)).collect::<Vec<_>>()).await;
    play.until_all_have_a_verdict().await;
    let holds = holds(&play.db).await;
    let told = |ended: Ended| {
        let held = holds.get(&ended.outbox_id).cloned();
        Told { first: held.or_else(|| ended.attempts[0].clone()), ended }
    };
    play.end().await.into_iter().map(told).collect()
}

/// Why payments were held, by payment.
async fn holds(db: &Db) -> HashMap<Uuid, String> {
    let mut owner = db.connect(DbUser::Superuser).await;
    let rows: Vec<(Uuid, Option<String>)> =
        sqlx::query_as("select outbox_id, error_code from symphony.payment_outbox_holds")
            .fetch_all(&mut owner)
            .await
            .expect("the holds");
    rows.into_iter().map(|(outbox_id, why)| (outbox_id, why.unwrap_or_default())).collect()
}
