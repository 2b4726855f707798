create or replace function symphony.report_host(p_worker_id text, p_rails text[], p_asleep boolean, p_digests jsonb default null)
  returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_lease_arguments(1, p_worker_id, 1);
  if p_rails is null or p_asleep is null or cardinality(p_rails) > 1000 then
    raise exception 'rails (at most 1000) and asleep must be given' using errcode = '22023';
  end if;
  if jsonb_typeof(p_digests) <> 'object' or octet_length(p_digests::text) > 262144 then
    raise exception 'digests must be a JSON object of at most 262144 bytes' using errcode = '22023';
  end if;
  insert into symphony.relay_hosts as h (worker_id, rails, asleep, seen_at, digests)
  values (p_worker_id, p_rails, p_asleep, v_now, p_digests)
  on conflict (worker_id) do update
    set rails = excluded.rails, asleep = excluded.asleep, seen_at = excluded.seen_at, digests = excluded.digests;
  delete from symphony.relay_hosts h where h.seen_at < v_now - interval '1 hour';
end
$$;

comment on function symphony.report_host(text, text[], boolean, jsonb) is
  'The heartbeat of a host: which rails it serves, in which versions, and whether it sleeps. To be repeated about every 20 seconds.';

grant execute on function symphony.report_host(text, text[], boolean, jsonb)
  to symphony_executor;
