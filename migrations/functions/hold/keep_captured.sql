create or replace function symphony.keep_captured(
  p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_values jsonb[], p_late boolean default false)
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
  if cardinality(p_values) is distinct from cardinality(p_outbox_ids)
     or exists (select 1 from unnest(p_values) as t(given)
                 where t.given is null or jsonb_typeof(t.given) <> 'object' or length(t.given::text) > 16384) then
    raise exception 'each payment needs what was captured, as an object of at most 16384 characters' using errcode = '22023';
  end if;
  -- What the rail said about a payment that was sent stays true after the lease is lost, and the next holder starts from it.
  -- What was only prepared does not: the next holder may have prepared and paid since.
  insert into symphony.payment_outbox_captures (outbox_id, name, lease_token, value, captured_at)
  select t.id, v.key, t.token, v.value, v_now
    from unnest(p_outbox_ids, p_lease_tokens, p_values) as t(id, token, given)
   cross join lateral jsonb_each_text(t.given) as v(key, value)
   where exists (select 1 from symphony.payment_outbox_pending p
                  where p.outbox_id = any (array[t.id])
                    and (p_late or p.lease_token = t.token and p.claimed_by = p_worker_id and p.lease_expires_at > v_now))
  on conflict (outbox_id, name, lease_token) do nothing;
  return query
    select p.outbox_id
      from unnest(p_outbox_ids, p_lease_tokens) as t(id, token)
      join symphony.payment_outbox_pending p
        on p.outbox_id = any (array[t.id]) and p.lease_token = t.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now;
end
$$;

comment on function symphony.keep_captured(text, uuid[], uuid[], jsonb[], boolean) is
  'Keeps values read in replies for later requests; to be committed before the next request leaves. p_late: the request paid or asked, and its lease may be over. A row missing from the answer has lost its lease: nothing more may be sent.';

grant execute on function symphony.keep_captured(text, uuid[], uuid[], jsonb[], boolean)
  to symphony_executor;
