-- Only the claim calls this: its plan is made under the planner settings of claim_outbox_batch.
create or replace function symphony.lock_due_rows(
  p_rail_type text, p_takes_new boolean, p_narrowed text, p_after timestamptz, p_at timestamptz, p_want int,
  out tids tid[], out ids uuid[], out participants text[], out front timestamptz)
  language plpgsql
  as $$
#variable_conflict use_column
begin
  -- due_of_rail finds the same rows for claim_shares, and expired leases besides, but locks none: the two cannot be one text.
  select array_agg(due.tid), array_agg(due.outbox_id), array_agg(due.participant_id),
         max(due.next_attempt_at) filter (where due.is_new)
    into tids, ids, participants, front
    from (select *
            from (select * from (
                    select p.ctid as tid, p.outbox_id, p.participant_id, p.next_attempt_at, p.created_at,
                           p.sequence_id, p.attempt_count = 0 as is_new
                      from symphony.payment_outbox_pending p
                     where p_takes_new and p_narrowed is null and p.rail_type = p_rail_type
                       and not p.unsettled and not p.parked
                       and p.next_attempt_at >= p_after and p.next_attempt_at <= p_at
                       and p.lease_token is null
                     order by p.next_attempt_at, p.created_at
                     limit p_want
                       for update skip locked) ready
                  union all
                  select * from (
                    select p.ctid, p.outbox_id, p.participant_id, p.next_attempt_at, p.created_at, p.sequence_id, false
                      from symphony.payment_outbox_pending p
                     where p_takes_new and p_narrowed is not null and p.rail_type = p_rail_type
                       and not p.unsettled and not p.parked and p.attempt_count > 0
                       and p.next_attempt_at >= p_after and p.next_attempt_at <= p_at
                       and p.lease_token is null
                     order by p.next_attempt_at, p.created_at
                     limit p_want
                       for update skip locked) again
                  union all
                  select * from (
                    select p.ctid, p.outbox_id, p.participant_id, p.next_attempt_at, p.created_at, p.sequence_id, false
                      from symphony.payment_outbox_pending p
                     where p.rail_type = p_rail_type and p.unsettled
                       and p.next_attempt_at >= p_after and p.next_attempt_at <= p_at
                       and p.lease_token is null
                     order by p.next_attempt_at, p.created_at
                     limit p_want
                       for update skip locked) asked) either
           order by either.next_attempt_at, either.created_at, either.sequence_id
           limit p_want) due;
end
$$;

comment on function symphony.lock_due_rows(text, boolean, text, timestamptz, timestamptz, int) is
  'Locks the rows of a rail that are due first and skips what others have locked: all of them, or those tried before where the rail is narrowed to them; where it takes no new ones, only those that have to be asked about. front is the place of the last row that was never tried.';
