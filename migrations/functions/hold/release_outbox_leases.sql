create or replace function symphony.release_outbox_leases(p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[])
  returns table (outbox_id uuid)
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
  perform symphony.check_held(p_worker_id, p_outbox_ids, p_lease_tokens);
  return query
    with work as materialized (
      select t.id, t.token from unnest(p_outbox_ids, p_lease_tokens) as t(id, token) order by t.id
    )
    update symphony.payment_outbox_pending p
       set claimed_by = null, lease_token = null, lease_expires_at = null
      from work t
     where p.outbox_id = any (array[t.id]) and p.lease_token = t.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now
       -- A mark of an earlier lease says nothing about this one, which was taken to ask.
       and (p.handed_over_at is null or p.handed_over_at < p.claimed_at)
    returning p.outbox_id;
  if found then
    perform symphony.notify_hosts();
  end if;
end
$$;

comment on function symphony.release_outbox_leases(text, uuid[], uuid[]) is
  'Gives back leases under which nothing was handed to a rail: no attempt, no delay. A row with a hand-over mark of this lease is kept.';

grant execute on function symphony.release_outbox_leases(text, uuid[], uuid[])
  to symphony_executor;
