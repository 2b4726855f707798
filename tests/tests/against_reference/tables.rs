//! Every table, as the database has it and as the model says it must be.

use std::collections::BTreeSet;

use harness::reference::{Micros, Outbox, Words};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection};
use uuid::Uuid;

type Rows = Vec<Value>;

/// Name, how to read its rows (times in microseconds), and what the model has in its place.
type Table = (&'static str, &'static str, fn(&Outbox) -> Rows);

const TABLES: [Table; 13] = [
    (
        "participant_outbox_sequences",
        "select participant_id, next_sequence_id, places from symphony.participant_outbox_sequences",
        sequences,
    ),
    (
        "rail_fronts",
        "select rail_type, us(front) front from symphony.rail_fronts",
        |model| model.fronts.iter().map(|(rail, front)| json!({"rail_type": rail, "front": front})).collect(),
    ),
    (
        "payment_outbox_pending",
        "select outbox_id, sequence_id, us(next_attempt_at) next_attempt_at, us(created_at) created_at, attempt_count,
                unsettled, parked, instruction_id, participant_id, idempotency_key, rail_type, payload::text as payload,
                us(handed_over_at) handed_over_at, us(claimed_at) claimed_at, us(lease_expires_at) lease_expires_at,
                lease_token, claimed_by
           from symphony.payment_outbox_pending",
        pending,
    ),
    (
        "payment_outbox_attempts",
        "select outbox_id, attempt_no, state, money_moved, instruction_id, participant_id, idempotency_key, rail_type,
                sequence_id, worker_id, lease_token, us(claimed_at) claimed_at, us(completed_at) completed_at,
                us(created_at) created_at, rail_reference, rail_code, error_code,
                split_part(error_message, ' at ', 1) as error_message, latency_ms, payload::text as payload
           from symphony.payment_outbox_attempts",
        attempts,
    ),
    (
        "payment_outbox_records",
        "select r.outbox_id, r.sequence_id, r.participant_id, t.i as instruction_id,
                r.key_digest = symphony.key_digest(t.i, t.k) as key_fits,
                r.request_hash = symphony.request_hash(t.p, t.r, t.b::jsonb::text) as request_fits
           from symphony.payment_outbox_records r
           left join unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
                     as t(id, i, k, p, r, b) on t.id = r.outbox_id",
        records,
    ),
    (
        "payment_outbox_holds",
        "select outbox_id, times, us(first_held_at) first_held_at, us(last_held_at) last_held_at, rail_type, worker_id,
                error_code
           from symphony.payment_outbox_holds",
        holds,
    ),
    (
        "payment_outbox_late_answers",
        "select outbox_id, lease_token, worker_id, state, money_moved, rail_reference, rail_code, error_code,
                error_message, latency_ms, us(recorded_at) recorded_at
           from symphony.payment_outbox_late_answers",
        late_answers,
    ),
    (
        "payment_outbox_resolutions",
        "select outbox_id, finding_no, money_moved, us(resolved_at) resolved_at from symphony.payment_outbox_resolutions",
        resolutions,
    ),
    ("payment_outbox_reissues", "select predecessor_id, successor_id from symphony.payment_outbox_reissues", |model| {
        model.reissues.iter().map(|(old, new)| json!({"predecessor_id": old, "successor_id": new})).collect()
    }),
    (
        "participants",
        "select participant_id, state = 'SUSPENDED' as suspended, strict_order, us(changed_at) changed_at
           from symphony.participants",
        participants,
    ),
    (
        "rails",
        "select r.rail_type, r.state = 'PAUSED' as paused, r.deduplicates, r.hand_over_marks, r.rate_per_second, r.burst,
                us(r.changed_at) changed_at,
                (4 * least(r.burst, coalesce(b.tokens + r.rate_per_second
                   * extract(epoch from symphony.clock() - b.refilled_at), r.burst)))::bigint as quarter_tokens
           from symphony.rails r
           left join symphony.rail_token_buckets b on b.rail_type = r.rail_type",
        rails,
    ),
    (
        "relay_hosts",
        "select worker_id, rails, asleep, us(seen_at) seen_at from symphony.relay_hosts",
        hosts,
    ),
    ("operator_acts", "select row_number() over (order by act_id) as act_id, act, target, by_whom from symphony.operator_acts", |model| {
        let numbered = (1..).zip(&model.acts);
        numbered.map(|(n, (act, target))| json!({"act_id": n, "act": act, "target": target, "by_whom": "op"})).collect()
    }),
];

fn sequences(model: &Outbox) -> Rows {
    let places = |participant: &str| -> serde_json::Map<String, Value> {
        let own = model.places.iter().filter(|((of, _), _)| of == participant);
        own.map(|((_, rail), place)| (rail.clone(), json!(place))).collect()
    };
    let row = |(id, next): (&String, &i64)| json!({"participant_id": id, "next_sequence_id": next, "places": places(id)});
    model.numbers.iter().map(row).collect()
}

/// Tables without a counterpart in the model, and why that is no gap.
const APART: [&str; 9] = [
    "payment_outbox_claims", // an index of leases; `ALWAYS_EMPTY` holds it against the leases themselves
    "rail_token_buckets",    // compared as tokens at this moment, with the rails
    "payment_outbox_verdicts", // written by retention only, which the sequences do not run
    "payment_outbox_partitions", // written by retention only
    "schema_migrations",     // written by migrate only
    "schema_functions",      // written by migrate only
    "clock_marks",           // the clock of the sequences never goes back
    "revoked_adapters",      // a list that decides nothing here
    "payment_outbox_captures", // what hosts keep of replies; it decides nothing in the database
];

/// What must find nothing, whatever happened. These look at the tables alone.
const ALWAYS_EMPTY: [(&str, &str); 6] = [
    ("a leased row that no claim names", "
        select p.outbox_id from symphony.payment_outbox_pending p
         where p.lease_token is not null
           and not exists (select 1 from symphony.payment_outbox_claims c
                            where c.lease_token = p.lease_token and p.outbox_id = any (c.outbox_ids)
                              and c.lease_expires_at <= p.lease_expires_at
                              and c.rail_type = p.rail_type and c.claimed_by = p.claimed_by)"),
    ("a gap in a stream", "select participant_id from symphony.sequence_gaps"),
    ("two verdicts, or a verdict that is not the last word", "
        select outbox_id from symphony.payment_outbox_attempts
         group by outbox_id
        having count(*) filter (where state in ('DISPATCHED', 'FAILED')) > 1
            or max(attempt_no) > max(attempt_no) filter (where state in ('DISPATCHED', 'FAILED'))"),
    ("attempts that are not numbered 1 to n", "
        select outbox_id from symphony.payment_outbox_attempts
         group by outbox_id having min(attempt_no) <> 1 or max(attempt_no) <> count(*)"),
    ("an accepted payment that is neither pending nor decided, or both", "
        select r.outbox_id from symphony.payment_outbox_records r
         where (select count(*) from symphony.payment_outbox_pending p where p.outbox_id = r.outbox_id)
             + (select count(*) from symphony.payment_outbox_attempts a
                 where a.outbox_id = r.outbox_id and a.state in ('DISPATCHED', 'FAILED')) <> 1"),
    ("an unsettled or leased row that is parked", "
        select outbox_id from symphony.payment_outbox_pending where parked and (unsettled or lease_token is not null)"),
];

pub(crate) async fn compare(connection: &mut PgConnection, model: &Outbox) -> Result<(), String> {
    model.check()?;
    let records: Vec<_> = model.records.values().collect();
    let column = |part: fn(&harness::reference::Request) -> &String| -> Vec<String> {
        records.iter().map(|record| part(&record.request).clone()).collect()
    };
    let parts: Vec<String> = TABLES
        .iter()
        .map(|(name, sql, _)| format!("select '{name}', to_jsonb(t) from ({sql}) t"))
        .chain(ALWAYS_EMPTY.iter().map(|(name, sql)| format!("select '{name}', to_jsonb(t) from ({sql}) t")))
        .collect();
    let sql = parts.join(" union all ").replace(" us(", " reference_test.us(");
    let found: Vec<(String, Value)> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(records.iter().map(|record| record.outbox_id).collect::<Vec<Uuid>>())
        .bind(column(|request| &request.instruction_id))
        .bind(column(|request| &request.idempotency_key))
        .bind(column(|request| &request.participant_id))
        .bind(column(|request| &request.rail_type))
        .bind(column(|request| &request.payload))
        .fetch_all(connection)
        .await
        .map_err(|error| format!("the tables cannot be read: {error}"))?;

    for (name, _, expected) in TABLES {
        let there: BTreeSet<String> =
            found.iter().filter(|(of, _)| of == name).map(|(_, row)| row.to_string()).collect();
        let wanted: BTreeSet<String> = expected(model).iter().map(Value::to_string).collect();
        if there != wanted {
            let list = |rows: Vec<&String>| rows.iter().map(|row| format!("\n    {row}")).collect::<String>();
            return Err(format!(
                "{name} deviates\n  only in the database:{}\n  only in the model:{}",
                list(there.difference(&wanted).collect()),
                list(wanted.difference(&there).collect())
            ));
        }
    }
    match found.iter().find(|(name, _)| ALWAYS_EMPTY.iter().any(|(empty, _)| empty == name)) {
        Some((name, row)) => Err(format!("{name}: {row}")),
        None => Ok(()),
    }
}

/// A table that a later migration adds must not stay out of sight.
pub(crate) async fn all_are_known(connection: &mut PgConnection) {
    let there: Vec<String> = sqlx::query_scalar(
        "select c.relname::text from pg_class c
          where c.relnamespace = 'symphony'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
          order by 1",
    )
    .fetch_all(connection)
    .await
    .expect("the catalogue can be read");
    let known: BTreeSet<&str> = TABLES.iter().map(|(name, ..)| *name).chain(APART).collect();
    let unknown: Vec<_> = there.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "tables that the reference knows nothing of: {unknown:?}");
}

fn pending(model: &Outbox) -> Rows {
    let row = |(id, row): (&Uuid, &harness::reference::Pending)| {
        let lease = row.lease.as_ref();
        json!({
            "outbox_id": id, "sequence_id": row.sequence_id, "next_attempt_at": row.next_attempt_at,
            "created_at": row.created_at, "attempt_count": row.attempt_count, "unsettled": row.unsettled,
            "parked": row.parked, "instruction_id": row.request.instruction_id,
            "participant_id": row.request.participant_id, "idempotency_key": row.request.idempotency_key,
            "rail_type": row.request.rail_type, "payload": row.request.payload, "handed_over_at": row.handed_over_at,
            "claimed_at": row.claimed_at, "lease_expires_at": lease.map(|l| l.expires_at),
            "lease_token": lease.map(|l| l.token), "claimed_by": lease.map(|l| l.worker.clone()),
        })
    };
    model.pending.iter().map(row).collect()
}

fn attempts(model: &Outbox) -> Rows {
    let numbers: std::collections::BTreeMap<Uuid, i64> =
        model.records.values().map(|record| (record.outbox_id, record.sequence_id)).collect();
    let mut rows = Vec::new();
    for (id, history) in &model.attempts {
        for (no, attempt) in (1..).zip(history) {
            let row = json!({
                "outbox_id": id, "attempt_no": no, "state": attempt.state, "money_moved": attempt.money_moved,
                "instruction_id": attempt.request.instruction_id, "participant_id": attempt.request.participant_id,
                "idempotency_key": attempt.request.idempotency_key, "rail_type": attempt.request.rail_type,
                "sequence_id": numbers.get(id), "worker_id": attempt.worker, "lease_token": attempt.token,
                "claimed_at": attempt.claimed_at, "completed_at": attempt.completed_at,
                "created_at": attempt.completed_at,
                "payload": attempt.is_verdict().then_some(&attempt.request.payload),
            });
            rows.push(with_words(row, &attempt.words));
        }
    }
    rows
}

fn records(model: &Outbox) -> Rows {
    let row = |record: &harness::reference::Record| {
        json!({
            "outbox_id": record.outbox_id, "sequence_id": record.sequence_id,
            "participant_id": record.request.participant_id, "instruction_id": record.request.instruction_id,
            "key_fits": true, "request_fits": true,
        })
    };
    model.records.values().map(row).collect()
}

fn resolutions(model: &Outbox) -> Rows {
    let mut rows = Vec::new();
    for (id, findings) in &model.resolutions {
        for (no, (moved, at)) in (1..).zip(findings) {
            rows.push(json!({"outbox_id": id, "finding_no": no, "money_moved": moved, "resolved_at": at}));
        }
    }
    rows
}

fn holds(model: &Outbox) -> Rows {
    let row = |(id, hold): (&Uuid, &harness::reference::Hold)| {
        json!({
            "outbox_id": id, "times": hold.times, "first_held_at": hold.first_at, "last_held_at": hold.last_at,
            "rail_type": hold.rail_type, "worker_id": hold.worker, "error_code": hold.error_code,
        })
    };
    model.holds.iter().map(row).collect()
}

fn late_answers(model: &Outbox) -> Rows {
    let row = |((id, token), late): (&(Uuid, Uuid), &harness::reference::LateAnswer)| {
        let row = json!({
            "outbox_id": id, "lease_token": token, "worker_id": late.worker, "state": late.state,
            "money_moved": late.money_moved, "recorded_at": late.recorded_at,
        });
        with_words(row, &late.words)
    };
    model.late_answers.iter().map(row).collect()
}

fn with_words(mut row: Value, words: &Words) -> Value {
    row["rail_reference"] = json!(words.rail_reference);
    row["rail_code"] = json!(words.rail_code);
    row["error_code"] = json!(words.error_code);
    row["error_message"] = json!(words.error_message);
    row["latency_ms"] = json!(words.latency_ms);
    row
}

fn participants(model: &Outbox) -> Rows {
    let row = |(id, p): (&String, &harness::reference::Participant)| {
        json!({
            "participant_id": id, "suspended": p.suspended, "strict_order": p.strict_order, "changed_at": p.changed_at,
        })
    };
    model.participants.iter().map(row).collect()
}

fn rails(model: &Outbox) -> Rows {
    let row = |(name, rail): (&String, &harness::reference::Rail)| {
        let (rate, burst) = rail.rate.unzip();
        #[expect(clippy::cast_possible_truncation, reason = "a few tokens, in quarters")]
        let quarter_tokens = model.tokens(name).map(|tokens| (4.0 * tokens) as Micros);
        json!({
            "rail_type": name, "paused": rail.paused, "deduplicates": true, "hand_over_marks": rail.hand_over_marks,
            "rate_per_second": rate, "burst": burst, "changed_at": rail.changed_at, "quarter_tokens": quarter_tokens,
        })
    };
    model.rails.iter().map(row).collect()
}

fn hosts(model: &Outbox) -> Rows {
    let row = |(worker, host): (&String, &harness::reference::Host)| json!({"worker_id": worker, "rails": host.rails, "asleep": host.asleep, "seen_at": host.seen_at});
    model.hosts.iter().map(row).collect()
}
