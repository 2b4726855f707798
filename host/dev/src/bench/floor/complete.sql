-- A completion with no checks: $1 worker, $2 ids, $3 tokens, $4 states, $5 references, $6 latencies.
with ended as (
  delete from symphony.payment_outbox_pending p
   using unnest($2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::int[])
         as t(id, token, given, reference, latency_ms)
   where p.outbox_id = t.id
  returning p.*, t.token, t.given, t.reference, t.latency_ms
)
insert into symphony.payment_outbox_attempts as a
       (outbox_id, lease_token, sequence_id, claimed_at, completed_at, created_at, attempt_no, latency_ms, state,
        instruction_id, participant_id, idempotency_key, rail_type, worker_id, money_moved, rail_reference, payload)
select e.outbox_id, e.token, e.sequence_id, e.claimed_at, now(), now(), 1, e.latency_ms,
       e.given::symphony.outbox_attempt_state, e.instruction_id, e.participant_id, e.idempotency_key, e.rail_type,
       $1::text, 'yes', e.reference, e.payload
  from ended e
returning a.outbox_id, null::text as refusal
