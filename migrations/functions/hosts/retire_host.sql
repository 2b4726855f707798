create or replace function symphony.retire_host(p_worker_id text) returns void
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$ delete from symphony.relay_hosts where worker_id = p_worker_id $$;

comment on function symphony.retire_host(text) is 'A host ends its service and says so.';

grant execute on function symphony.retire_host(text)
  to symphony_executor;
