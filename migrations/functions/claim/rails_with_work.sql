create or replace function symphony.rails_with_work() returns setof text
  language sql stable
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    with recursive ready(rail_type) as (
      (select p.rail_type
         from symphony.payment_outbox_pending p
        where not p.unsettled and not p.parked
        order by p.rail_type
        limit 1)
      union all
      select (select p.rail_type
                from symphony.payment_outbox_pending p
               where not p.unsettled and not p.parked and p.rail_type > ready.rail_type
               order by p.rail_type
               limit 1)
        from ready
       where ready.rail_type is not null
    ),
    asked(rail_type) as (
      (select p.rail_type
         from symphony.payment_outbox_pending p
        where p.unsettled
        order by p.rail_type
        limit 1)
      union all
      select (select p.rail_type
                from symphony.payment_outbox_pending p
               where p.unsettled and p.rail_type > asked.rail_type
               order by p.rail_type
               limit 1)
        from asked
       where asked.rail_type is not null
    )
    select w.rail_type
      from (select rail_type from ready
            union
            select rail_type from asked
            union
            select rail_type from symphony.payment_outbox_claims where lease_expires_at <= symphony.clock()) w
     where w.rail_type is not null
  $$;

comment on function symphony.rails_with_work() is
  'The rails that have rows to lease. It costs one index probe per rail, however long the queues are.';
