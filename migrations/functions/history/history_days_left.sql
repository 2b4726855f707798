create or replace function symphony.history_days_left() returns double precision
  language sql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select coalesce(extract(epoch from max(until_at) - symphony.clock()), 0)::double precision / 86400
      from symphony.payment_outbox_partitions
     where detached_at is null
  $$;

comment on function symphony.history_days_left() is
  'Days until the last month that exists ends. At 0 enqueue refuses every payment (P7007).';

grant execute on function symphony.history_days_left()
  to symphony_readonly, symphony_executor;
