-- Called under the planner settings of reconcile_parking alone.
create or replace function symphony.find_wrongly_parked(p_limit int) returns uuid[]
  language plpgsql
  as $$
begin
  return array(
    with recursive parked_participants(participant_id) as (
      (select p.participant_id
         from symphony.payment_outbox_pending p
        where p.parked
        order by p.participant_id
        limit 1)
      union all
      select (select p.participant_id
                from symphony.payment_outbox_pending p
               where p.parked and p.participant_id > pp.participant_id
               order by p.participant_id
               limit 1)
        from parked_participants pp
       where pp.participant_id is not null
    )
    select f.outbox_id
      from parked_participants pp
      left join symphony.participants s on s.participant_id = pp.participant_id
     cross join lateral (
           select p.outbox_id, p.sequence_id
             from symphony.payment_outbox_pending p
            where p.parked and p.participant_id = pp.participant_id
            order by p.sequence_id
            limit case when s.strict_order then 1 else p_limit end) f
     where coalesce(s.state, 'ACTIVE') = 'ACTIVE'
       and (not coalesce(s.strict_order, false)
            or not exists (select 1 from symphony.payment_outbox_pending e
                            where e.participant_id = pp.participant_id and e.sequence_id < f.sequence_id))
     limit p_limit);
end
$$;

comment on function symphony.find_wrongly_parked(int) is
  'Rows that are parked without a reason: every row of a participant that is active and unordered, the head of one that is ordered.';
