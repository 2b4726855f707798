create or replace function symphony.queue_fronts(p_rail_types text[], p_now timestamptz) returns jsonb
  -- In SQL it would be planned again with every batch.
  language plpgsql stable
  as $$
begin
  return (
    select jsonb_object_agg(r.rail_type, (extract(epoch from coalesce(
             f.front,
             least(p_now, (select p.next_attempt_at
                             from symphony.payment_outbox_pending p
                            where p.rail_type = r.rail_type and not p.unsettled and not p.parked
                            order by p.next_attempt_at, p.created_at
                            limit 1)))) * 1000000)::bigint)
      from (select distinct t.rail_type from unnest(p_rail_types) as t(rail_type) where t.rail_type is not null) r
      left join symphony.rail_fronts f on f.rail_type = r.rail_type);
end
$$;

comment on function symphony.queue_fronts(text[], timestamptz) is
  'Per rail, how far its claims have come in the queue, in microseconds since 1970. Where there were none: the head of the queue, or now.';
