create or replace function symphony.mark_handed_over(p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[])
  returns table (outbox_id uuid, handed_over_at timestamptz)
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
       -- A mark of this lease, whatever an earlier lease left, and even if the clock went back.
       set handed_over_at = case when p.handed_over_at >= p.claimed_at then p.handed_over_at
                                 else greatest(v_now, p.claimed_at) end
      from work t
     where p.outbox_id = any (array[t.id]) and p.lease_token = t.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now
    returning p.outbox_id, p.handed_over_at;
end
$$;

comment on function symphony.mark_handed_over(text, uuid[], uuid[]) is
  'To be committed before the first byte leaves, on rails that keep marks. A row missing from the answer must not be sent.';

grant execute on function symphony.mark_handed_over(text, uuid[], uuid[])
  to symphony_executor;
