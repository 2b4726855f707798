//! A person's acts on payments: taking one back before it leaves, and ending what the rail did not end well.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use outbox::enqueue::NewPayment;
use outbox::operate::{Operator, Reason};
use outbox::read::{Payment, Reader};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::accept::Acceptance;
use super::act_reason::ActReason;
use super::bulk::{Done, Selection, Verb};
use super::enqueue;
use super::session::CommandContext;
use super::shown::destination;
use terminal::print::say;
use terminal::{BadArgument, Missing, Refused};

#[derive(Debug, Args)]
pub(super) struct Cancel {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    reason: ActReason,
}

impl Cancel {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let operator = Operator::new(session.database());
        let reason: Reason = self.reason.into();
        let verb = Verb { will: "cancel", done: "cancelled" };
        self.selection
            .act(session, verb, async |payment: Payment| {
                let id = payment.outbox_id;
                operator.cancel(id, &reason).await?;
                Ok(Done {
                    sentence: format!("Payment {id} is cancelled: no money moved."),
                    json: json!({ "outbox_id": id, "cancelled": true }),
                })
            })
            .await
    }
}

#[derive(Debug, Args)]
pub(super) struct Reissue {
    #[command(flatten)]
    selection: Selection,
    /// The instruction id of the new payment, if exactly one is reissued.
    #[arg(long)]
    instruction: Option<String>,
    /// Its idempotency key. Default: the instruction id.
    #[arg(long, requires = "instruction")]
    key: Option<String>,
    /// A new payload, as a JSON object, if it changes. It is checked as by enqueue. The differences are shown first.
    #[arg(long, value_name = "JSON", requires = "instruction")]
    payload: Option<String>,
    /// Accept the payload without the checks of the rail's adapter.
    #[arg(long, requires = "payload")]
    unchecked: bool,
    /// Suffix added to the old instruction ids and keys, if --instruction is not given.
    #[arg(long, default_value = "-r1", allow_hyphen_values = true, conflicts_with = "instruction")]
    suffix: String,
    #[command(flatten)]
    reason: ActReason,
}

/// What the successor is called.
struct Names {
    instruction_id: String,
    idempotency_key: String,
}

impl Reissue {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let single = self.selection.single();
        if self.instruction.is_some() && single.is_none() {
            return Err(BadArgument(
                "--instruction names one new payment, expected one id; --suffix names many".to_owned(),
            )
            .into());
        }
        let payload = match (&self.payload, single) {
            (Some(text), Some(id)) => Some(self.changed_payload(session, id, text).await?),
            _ => None,
        };
        let operator = Operator::new(session.database());
        let reason = Reason { by: self.reason.by.clone(), why: self.reason.why.clone() };
        let (instruction, key, suffix) = (self.instruction, self.key, self.suffix);
        let names = |old: &Payment| match &instruction {
            Some(new) => Names {
                instruction_id: new.clone(),
                idempotency_key: key.clone().unwrap_or_else(|| new.clone()),
            },
            None => Names {
                instruction_id: format!("{}{suffix}", old.instruction_id),
                idempotency_key: format!("{}{suffix}", old.idempotency_key),
            },
        };
        let verb = Verb { will: "reissue", done: "reissued" };
        self.selection
            .act(session, verb, async |payment: Payment| {
                let (old, new) = (payment.outbox_id, names(&payment));
                let (id, number) = operator
                    .reissue(old, &new.instruction_id, &new.idempotency_key, payload.as_ref(), &reason)
                    .await?;
                Ok(Done {
                    sentence: format!("Payment {id}, number {number} of its stream, replaces {old}."),
                    json: json!({ "predecessor_id": old, "outbox_id": id, "sequence_id": number }),
                })
            })
            .await
    }

    /// Checks the new payload and shows how it differs from the old one.
    async fn changed_payload(&self, session: &CommandContext, id: Uuid, text: &str) -> anyhow::Result<Value> {
        let new = enqueue::payload(text)?;
        let found = Reader::new(session.database()).by_id(&[id]).await?.pop();
        let old = found.ok_or_else(|| Missing(format!("there is no payment {id}")))?;
        let instruction_id = self.instruction.clone().unwrap_or_default();
        let payment = NewPayment {
            idempotency_key: self.key.clone().unwrap_or_else(|| instruction_id.clone()),
            instruction_id,
            participant_id: old.participant_id.clone(),
            rail_type: old.rail_type.clone(),
            payload: new.clone().into(),
        };
        Acceptance::new(session, self.unchecked).check(payment).await?.map_err(Refused)?;
        match differences(&old.payload.unwrap_or_default(), &new) {
            none if none.is_empty() => say("The payload is the same as before."),
            some => say(&format!("What changes in the payload:\n{}", some.join("\n"))),
        }
        Ok(new)
    }
}

/// A line per field that differs, old and new, with payees masked.
fn differences(old: &Value, new: &Value) -> Vec<String> {
    let none = Map::new();
    let fields = |payload: &Value| flat(payload.as_object().unwrap_or(&none), "");
    let (before, after) = (fields(old), fields(new));
    let (old_payee, new_payee) = (destination(Some(old), None), destination(Some(new), None));
    let mut names: Vec<_> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let shown = |value: Option<&Value>| match value {
        Some(value) => new_payee.masked_in(&old_payee.masked_in(&value.to_string())),
        None => "nothing".to_owned(),
    };
    names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| {
            let (old, new) = (shown(before.get(name)), shown(after.get(name)));
            let hidden = if old == new { " (they differ in what is hidden)" } else { "" };
            format!("  {name}: {old} → {new}{hidden}")
        })
        .collect()
}

/// All fields by their paths.
fn flat(fields: &Map<String, Value>, path: &str) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, value) in fields {
        match value {
            Value::Object(inner) if !inner.is_empty() => all.extend(flat(inner, &format!("{path}{name}."))),
            other => drop(all.insert(format!("{path}{name}"), other.clone())),
        }
    }
    all
}

#[derive(Debug, Args)]
pub(super) struct ResolveArgs {
    #[command(flatten)]
    selection: Selection,
    /// What was found out.
    #[arg(long)]
    money_moved: MoneyFinding,
    /// Evidence for it: a statement, a ticket of the rail, a phone call.
    #[arg(long)]
    evidence: String,
    #[command(flatten)]
    reason: ActReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MoneyFinding {
    Yes,
    No,
}

impl ResolveArgs {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let moved = self.money_moved == MoneyFinding::Yes;
        let operator = Operator::new(session.database());
        let (reason, evidence): (Reason, _) = (self.reason.into(), self.evidence);
        let finding = if moved { "moved" } else { "did not move; it may be reissued" };
        let verb = Verb { will: "resolve", done: "resolved" };
        self.selection
            .act(session, verb, async |payment: Payment| {
                let id = payment.outbox_id;
                operator.resolve(id, moved, &reason, &evidence).await?;
                Ok(Done {
                    sentence: format!("Payment {id} is resolved: the money {finding}."),
                    json: json!({ "outbox_id": id, "money_moved": moved }),
                })
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_payload_is_told_field_by_field_with_the_payee_masked() {
        let old = json!({ "amount": "5.00", "currency": "ZMW", "destination": { "msisdn": "260961234567", "network": "mtn" } });
        let new = json!({ "amount": "5.50", "currency": "ZMW", "destination": { "msisdn": "260961234999", "network": "mtn" }, "narrative": "x" });
        assert_eq!(
            differences(&old, &new),
            [
                "  amount: \"5.00\" → \"5.50\"",
                "  destination.msisdn: \"***567\" → \"***999\"",
                "  narrative: nothing → \"x\"",
            ]
        );
        let same_end = json!({ "destination": { "msisdn": "260971234567" } });
        let told = differences(&json!({ "destination": { "msisdn": "260961234567" } }), &same_end);
        assert_eq!(told, ["  destination.msisdn: \"***567\" → \"***567\" (they differ in what is hidden)"]);
    }
}
