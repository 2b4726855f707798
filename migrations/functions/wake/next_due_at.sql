create or replace function symphony.next_due_at(p_rails text[] default null) returns timestamptz
  language plpgsql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_now timestamptz := symphony.clock();
begin
  return (
    select min(d.at)
      from unnest(coalesce(p_rails, array(select symphony.rails_with_work()))) as r(rail_type)
     cross join lateral (
           select least(
             (select min(p.next_attempt_at) from symphony.payment_outbox_pending p
               where p.rail_type = r.rail_type and not p.unsettled and not p.parked and p.next_attempt_at > v_now),
             (select min(p.next_attempt_at) from symphony.payment_outbox_pending p
               where p.rail_type = r.rail_type and p.unsettled and p.next_attempt_at > v_now)) as at) d);
end
$$;

comment on function symphony.next_due_at(text[]) is
  'When the next scheduled row of these rails falls due; null if none is scheduled. Rows that are due already do not count: the claim finds them.';

grant execute on function symphony.next_due_at(text[])
  to symphony_executor;
