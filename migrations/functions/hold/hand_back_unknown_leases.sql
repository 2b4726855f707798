create or replace function symphony.hand_back_unknown_leases(p_worker_id text, p_known_tokens uuid[])
  returns table (outbox_id uuid)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  -- A plan is kept for the session and must suit an empty queue and one of millions: the given ids are looked up by index,
  -- one by one. The queue is never scanned, hashed or merged.
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  -- To compile the plan takes longer than to run it.
  set jit = off
  as $$
#variable_conflict use_column
begin
  perform symphony.check_lease_arguments(1, p_worker_id, 1);
  if p_known_tokens is null or array_position(p_known_tokens, null) is not null then
    raise exception 'the known tokens must be given, and none of them null' using errcode = '22023';
  end if;
  return query
    with work as materialized (
      select i.id, c.lease_token as token
        from symphony.payment_outbox_claims c
       cross join lateral unnest(c.outbox_ids) as i(id)
       where c.claimed_by = p_worker_id and c.lease_token <> all (p_known_tokens)
       order by i.id
    )
    update symphony.payment_outbox_pending p
       set claimed_by = null, lease_token = null, lease_expires_at = null
      from work t
     where p.outbox_id = any (array[t.id]) and p.lease_token = t.token and p.claimed_by = p_worker_id
       and (p.handed_over_at is null or p.handed_over_at < p.claimed_at)
       -- A lease with a late answer was given to a rail, whatever its holder has forgotten since.
       and not exists (select 1 from symphony.payment_outbox_late_answers l
                        where l.outbox_id = t.id and l.lease_token = t.token)
    returning p.outbox_id;
  if found then
    perform symphony.notify_hosts();
  end if;
end
$$;

comment on function symphony.hand_back_unknown_leases(text, uuid[]) is
  'Frees what a claim leased for this worker when its answer never arrived: no attempt, no delay, also after the lease ended, because a worker that never heard of a lease sent nothing under it. The known tokens are all that the host has heard of and not ended. It must not call this while an answer to a claim may still arrive.';

grant execute on function symphony.hand_back_unknown_leases(text, uuid[])
  to symphony_executor;
