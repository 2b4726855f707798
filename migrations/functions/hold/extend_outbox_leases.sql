create or replace function symphony.extend_outbox_leases(
  p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_lease_seconds double precision)
  returns table (outbox_id uuid, lease_expires_at timestamptz)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  -- A plan is kept for the session and must suit an empty queue and one of millions: the given ids are looked up by index,
  -- one by one. The queue is never scanned, hashed or merged.
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_lease_arguments(1, p_worker_id, p_lease_seconds);
  perform symphony.check_held(p_worker_id, p_outbox_ids, p_lease_tokens);
  return query
    with work as materialized (
      select t.id, t.token from unnest(p_outbox_ids, p_lease_tokens) as t(id, token) order by t.id
    )
    update symphony.payment_outbox_pending p
       set lease_expires_at = greatest(p.lease_expires_at, v_now + make_interval(secs => p_lease_seconds))
      from work t
     where p.outbox_id = any (array[t.id]) and p.lease_token = t.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now
    returning p.outbox_id, p.lease_expires_at;
end
$$;

comment on function symphony.extend_outbox_leases(text, uuid[], uuid[], double precision) is
  'The heartbeat of long calls. A row missing from the answer has lost its lease.';

grant execute on function symphony.extend_outbox_leases(text, uuid[], uuid[], double precision)
  to symphony_executor;
