-- Called under the planner settings of reconcile_clock alone.
create or replace function symphony.lock_rows_ahead(
  p_now timestamptz, p_soon timestamptz, p_longest timestamptz, p_limit int,
  out ids uuid[], out waits interval[], out claims timestamptz[])
  language plpgsql
  as $$
#variable_conflict use_column
begin
  -- Each row once. The last step of a row says from when on it was to wait: its lease, the end of its last attempt, its hold.
  -- A payment that was never leased has nothing to wait for.
  select array_agg(w.outbox_id), array_agg(w.wait), array_agg(w.claimed_at)
    into ids, waits, claims
    from (select p.outbox_id,
                 case when p.lease_token is not null and p.claimed_at <= p_soon then p.claimed_at
                      when p.claimed_at is not null then p_now end as claimed_at,
                 case when p.claimed_at is null then interval '0'
                      else greatest(interval '0', p.next_attempt_at - greatest(p.claimed_at, t.completed_at, h.last_held_at))
                 end as wait
            from symphony.payment_outbox_pending p
            left join lateral (select a.completed_at
                                 from symphony.payment_outbox_attempts a
                                where p.lease_token is null and p.next_attempt_at > p_soon and p.attempt_count > 0
                                  and a.outbox_id = p.outbox_id and a.attempt_no = p.attempt_count
                                  and a.claimed_at = p.claimed_at) t on true
            left join symphony.payment_outbox_holds h on h.outbox_id = p.outbox_id and p.lease_token is null
           where p.claimed_at > p_soon
              or p.lease_expires_at > p_longest
              or (p.claimed_at is null and p.created_at > p_soon and p.next_attempt_at > p_soon)
              or (p.lease_token is null and p.next_attempt_at > p_soon
                  and (t.completed_at > p_soon or h.last_held_at > p_soon))
           order by p.outbox_id
           limit p_limit
             for update of p) w;
end
$$;

comment on function symphony.lock_rows_ahead(timestamptz, timestamptz, timestamptz, int) is
  'Locks a bounded number of rows with times in the future. Per row: how long it has to wait from now, and when its lease begins now.';
