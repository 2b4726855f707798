create or replace function symphony.other_hosts(p_worker_id text) returns table (worker_id text, digests jsonb)
  language sql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select h.worker_id, h.digests
      from symphony.relay_hosts h
     where h.worker_id <> p_worker_id and h.seen_at > symphony.clock() - interval '1 minute'
     order by h.worker_id
  $$;

comment on function symphony.other_hosts(text) is
  'The other hosts that reported within the last minute, and what they run. Where it differs from ours, two versions serve side by side.';

grant execute on function symphony.other_hosts(text)
  to symphony_executor;
