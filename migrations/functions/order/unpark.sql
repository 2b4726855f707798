-- Called under the planner settings of reconcile_parking alone.
create or replace function symphony.unpark(p_ids uuid[], p_now timestamptz) returns int
  language plpgsql
  as $$
declare
  v_ids uuid[];
  v_freed int;
begin
  v_ids := array(
    select p.outbox_id
      from symphony.payment_outbox_pending p
     where p.outbox_id = any (p_ids) and p.parked
       for update skip locked);
  -- They return to the front of their queue, a microsecond apart, so that others still find places between them.
  update symphony.payment_outbox_pending p
     set parked = false,
         next_attempt_at = greatest(
           p.next_attempt_at, least(p_now, coalesce(f.front, p_now) + n.place * interval '1 microsecond'))
    from (select q.outbox_id, q.rail_type,
                 row_number() over (partition by q.participant_id, q.rail_type order by q.sequence_id) as place
            from symphony.payment_outbox_pending q
           where q.outbox_id = any (v_ids)) n
    left join symphony.rail_fronts f on f.rail_type = n.rail_type
   where p.outbox_id = any (array[n.outbox_id]);
  get diagnostics v_freed = row_count;
  return v_freed;
end
$$;

comment on function symphony.unpark(uuid[], timestamptz) is
  'Makes parked rows due again and answers how many. What others have locked stays parked until the next call.';
