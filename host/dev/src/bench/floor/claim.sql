-- A claim with no checks: $1 rows, $2 worker, $3 seconds, $4 rail.
with due as materialized (
  select p.ctid as tid
    from symphony.payment_outbox_pending p
   where p.rail_type = $4::text and not p.unsettled and not p.parked
     and p.next_attempt_at <= now() and p.lease_token is null
   order by p.next_attempt_at, p.created_at
   limit $1::int
     for update skip locked
),
token as materialized (
  select gen_random_uuid() as value
),
leased as (
  update symphony.payment_outbox_pending p
     set claimed_by = $2::text, lease_token = token.value,
         lease_expires_at = now() + make_interval(secs => $3::double precision), claimed_at = now()
    from due, token
   where p.ctid = due.tid
  returning p.*
),
noted as (
  insert into symphony.payment_outbox_claims (lease_expires_at, lease_token, rail_type, claimed_by, outbox_ids)
  select l.lease_expires_at, l.lease_token, $4::text, $2::text, array_agg(l.outbox_id)
    from leased l
   group by l.lease_expires_at, l.lease_token
)
select l.outbox_id, l.instruction_id, l.participant_id, l.sequence_id, l.idempotency_key, l.rail_type, l.payload,
       l.attempt_count, l.next_attempt_at, l.created_at, l.claimed_at, l.lease_token, l.lease_expires_at, l.unsettled,
       l.handed_over_at, null::jsonb as past
  from leased l
