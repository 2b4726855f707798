create or replace function symphony.promote_strict_heads(p_participant_ids text[]) returns void
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  -- Called with every verdict of a strict stream: the plan is made once a session.
  set plan_cache_mode = force_generic_plan
  as $$
declare
  v_now timestamptz := symphony.clock();
  v_strict text[];
begin
  v_strict := array(
    select s.participant_id
      from symphony.participants s
     where s.strict_order and s.state = 'ACTIVE' and s.participant_id = any (p_participant_ids)
     order by s.participant_id);
  if cardinality(v_strict) = 0 then
    return;
  end if;
  -- A claim that still saw the finished row may be parking the next one now. With the lock we see what it did, and a later
  -- claim sees what we did.
  perform pg_advisory_xact_lock(symphony.stream_lock(s)) from unnest(v_strict) as t(s);
  update symphony.payment_outbox_pending p
     set parked = false,
         -- To the front of its queue: others find places beside it, and hosts that skip what lies further back see it.
         next_attempt_at = greatest(p.next_attempt_at, least(v_now, coalesce(
           (select f.front from symphony.rail_fronts f where f.rail_type = p.rail_type), v_now) + interval '1 microsecond'))
    from (select h.outbox_id
            from unnest(v_strict) as s(participant_id)
           cross join lateral (
                 select e.outbox_id
                   from symphony.payment_outbox_pending e
                  where e.participant_id = s.participant_id
                  order by e.sequence_id
                  limit 1) h) head
   where p.outbox_id = any (array[head.outbox_id]) and p.parked;
  if found then
    perform symphony.notify_hosts();
  end if;
end
$$;

comment on function symphony.promote_strict_heads(text[]) is
  'After a verdict: the next payment of a strictly ordered participant becomes due.';
