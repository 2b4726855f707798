-- Called under the planner settings of requeue_expired alone.
create or replace function symphony.end_expired_leases(p_ids uuid[], p_worker_id text, p_now timestamptz, p_delay interval)
  returns table (outbox_id uuid, attempt_no int, state text, rail_type text, participant_id text)
  language plpgsql
  as $$
#variable_conflict use_column
begin
  return query
    with past as materialized (
      select a.outbox_id, max(a.attempt_no) as last_no
        from symphony.payment_outbox_attempts a
       where a.outbox_id = any (p_ids)
       group by a.outbox_id
    ),
    expired as materialized (
      select p.*,
             coalesce(past.last_no, 0) + 1 as no,
             -- On a rail that keeps marks, no mark means that nothing left: the past is as settled as it was.
             p.unsettled or p.handed_over_at is not null or not coalesce(r.hand_over_marks, false) as now_unsettled
        from symphony.payment_outbox_pending p
        left join past on past.outbox_id = p.outbox_id
        left join symphony.rails r on r.rail_type = p.rail_type
       where p.outbox_id = any (p_ids)
    ),
    gone as (
      delete from symphony.payment_outbox_pending p
       using expired e
       where p.outbox_id = any (array[e.outbox_id]) and e.no >= symphony.attempts_max()
    ),
    again as (
      update symphony.payment_outbox_pending p
         set claimed_by = null, lease_token = null, lease_expires_at = null,
             unsettled = e.now_unsettled,
             attempt_count = greatest(p.attempt_count, e.no),
             next_attempt_at = p_now + p_delay
        from expired e
       where p.outbox_id = any (array[e.outbox_id]) and e.no < symphony.attempts_max()
    )
    insert into symphony.payment_outbox_attempts as a
           (outbox_id, lease_token, sequence_id, claimed_at, completed_at, created_at, attempt_no, latency_ms, state, by_holder,
            instruction_id, participant_id, idempotency_key, rail_type, worker_id, money_moved, error_code,
            error_message, payload)
    select e.outbox_id, e.lease_token, e.sequence_id, e.claimed_at, p_now, p_now, e.no, null,
           case when e.no >= symphony.attempts_max() then 'FAILED' else 'ZOMBIE_REQUEUE' end::symphony.outbox_attempt_state, false,
           e.instruction_id, e.participant_id, e.idempotency_key, e.rail_type, e.claimed_by,
           case when e.now_unsettled then 'unknown' else 'no' end,
           case when e.no < symphony.attempts_max() then 'LEASE_EXPIRED'
                when e.now_unsettled then 'OUTCOME_UNKNOWN'
                else 'RETRIES_EXHAUSTED' end,
           format('lease of %s ran out at %s, found by %s', e.claimed_by, e.lease_expires_at, p_worker_id),
           case when e.no >= symphony.attempts_max() then e.payload end
      from expired e
    returning a.outbox_id, a.attempt_no, a.state::text as state, a.rail_type, a.participant_id;
end
$$;

comment on function symphony.end_expired_leases(uuid[], text, timestamptz, interval) is
  'Ends the leases of these locked rows, each with its row in the history: due again after the delay (ZOMBIE_REQUEUE), or at the ceiling out of the queue (FAILED).';
