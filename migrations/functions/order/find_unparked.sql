-- Called under the planner settings of reconcile_parking alone.
create or replace function symphony.find_unparked(p_streams text[], p_everywhere boolean, p_limit int) returns uuid[]
  language plpgsql
  as $$
begin
  return array(
    select h.outbox_id
      from symphony.participants s
     cross join lateral (
           select (select e.sequence_id
                     from symphony.payment_outbox_pending e
                    where e.participant_id = s.participant_id
                    order by e.sequence_id
                    limit 1) as head,
                  case when not p_everywhere then
                    (select e.sequence_id
                       from symphony.payment_outbox_pending e
                      where e.participant_id = s.participant_id and e.parked
                      order by e.sequence_id
                      limit 1) end as first_parked) edge
     cross join lateral (
           select p.outbox_id
             from symphony.payment_outbox_pending p
            where p.participant_id = s.participant_id
              and p.sequence_id < coalesce(edge.first_parked, 9223372036854775807)
              and not p.parked and not p.unsettled and p.lease_token is null
              and (s.state = 'SUSPENDED' or p.sequence_id > edge.head)
            order by p.sequence_id desc
            limit p_limit) h
     where s.state = 'SUSPENDED' or s.participant_id = any (p_streams)
     limit p_limit);
end
$$;

comment on function symphony.find_unparked(text[], boolean, int) is
  'Rows that wait to be leased and should be parked: those of suspended participants, and in these strict streams all but the head. Streams are parked from their end, so that the first parked row says how far that has come, and a long stream is not read again with every call. p_everywhere looks behind that row too.';
