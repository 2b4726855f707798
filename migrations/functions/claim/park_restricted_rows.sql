-- Only the claim calls this: its plans are made under the planner settings of claim_outbox_batch.
create or replace function symphony.park_restricted_rows(
  p_tids tid[], out tids tid[], out ids uuid[], out front timestamptz, out some_parked boolean)
  language plpgsql
  as $$
#variable_conflict use_column
declare
  v_unsure text[];
  v_held tid[];
begin
  -- Strict streams first. Where a verdict is being written now, the stream's lock is taken, and the row waits for the next
  -- claim. If we waited here, the two could block each other: the verdict may want our row.
  v_unsure := array(
    select s.participant_id
      from symphony.payment_outbox_pending p
      join symphony.participants s on s.participant_id = p.participant_id and s.strict_order
     where p.ctid = any (p_tids)
     group by s.participant_id
    having not pg_try_advisory_xact_lock(symphony.stream_lock(s.participant_id)));
  v_held := array(
    select p.ctid
      from symphony.payment_outbox_pending p
      join symphony.participants s on s.participant_id = p.participant_id
     where p.ctid = any (p_tids)
       and not p.unsettled
       and (s.state = 'SUSPENDED' or s.strict_order)
       and (s.state = 'SUSPENDED'
            or (s.participant_id <> all (v_unsure)
                and exists (select 1 from symphony.payment_outbox_pending e
                             where e.participant_id = p.participant_id and e.sequence_id < p.sequence_id))));
  some_parked := cardinality(v_held) > 0;
  if some_parked then
    update symphony.payment_outbox_pending p
       set parked = true
     where p.ctid = any (v_held);
  end if;
  select array_agg(k.tid), array_agg(k.outbox_id), max(k.next_attempt_at) filter (where k.is_new)
    into tids, ids, front
    from (select p.ctid as tid, p.outbox_id, p.next_attempt_at, p.attempt_count = 0 and not p.unsettled as is_new
            from unnest(p_tids) with ordinality as t(tid, at)
            join symphony.payment_outbox_pending p on p.ctid = t.tid
           where not p.parked and (p.unsettled or p.participant_id <> all (v_unsure))
           order by t.at) k;
end
$$;

comment on function symphony.park_restricted_rows(tid[]) is
  'Parks those of the locked rows whose participant is suspended, or ordered strictly and has an older open payment. Answers with the rows that may be leased.';
