create or replace function symphony.hold_outbox_leases(
  p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_delay_seconds double precision[],
  p_error_codes text[], p_rail_codes text[], p_messages text[], p_adapter_digests bytea[] default null)
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
  if cardinality(p_outbox_ids) <> any (array[cardinality(p_delay_seconds), cardinality(p_error_codes),
                                             cardinality(p_rail_codes), cardinality(p_messages),
                                             cardinality(p_adapter_digests)]) then
    raise exception 'the arrays of a batch must be of one length' using errcode = '22023';
  end if;
  if exists (select 1 from unnest(p_delay_seconds) as t(delay) where t.delay not between 0 and 2678400)
     or exists (select 1 from unnest(p_adapter_digests) as t(digest) where octet_length(t.digest) <> 32) then
    raise exception 'a hold needs a delay between 0 and 2678400 seconds and, if any, a digest of 32 bytes'
      using errcode = '22023';
  end if;
  return query
    with work as materialized (
      select t.*
        from unnest(p_outbox_ids, p_lease_tokens, p_delay_seconds, p_error_codes, p_rail_codes, p_messages,
                    p_adapter_digests)
             as t(id, token, delay, error_code, rail_code, message, digest)
       order by t.id
    ),
    freed as (
      update symphony.payment_outbox_pending p
         set claimed_by = null, lease_token = null, lease_expires_at = null,
             handed_over_at = case when p.unsettled then p.handed_over_at end,
             next_attempt_at = v_now + make_interval(secs => coalesce(t.delay, 1))
        from work t
       where p.outbox_id = any (array[t.id]) and p.lease_token = t.token and p.claimed_by = p_worker_id
         and p.lease_expires_at > v_now
      returning p.outbox_id, p.rail_type, t.error_code, t.rail_code, t.message, t.digest
    )
    insert into symphony.payment_outbox_holds as h
           (outbox_id, first_held_at, last_held_at, rail_type, worker_id, error_code, rail_code, error_message,
            adapter_digest, calls)
    select f.outbox_id, v_now, v_now, f.rail_type, p_worker_id, left(f.error_code, 256), left(f.rail_code, 256),
           left(f.message, 2000), f.digest, num_nonnulls(f.digest)
      from freed f
    on conflict (outbox_id) do update
      set times = h.times + 1, last_held_at = excluded.last_held_at, rail_type = excluded.rail_type,
          worker_id = excluded.worker_id, error_code = excluded.error_code, rail_code = excluded.rail_code,
          error_message = excluded.error_message, adapter_digest = excluded.adapter_digest,
          calls = h.calls + excluded.calls
    returning h.outbox_id;
end
$$;

comment on function symphony.hold_outbox_leases(text, uuid[], uuid[], double precision[], text[], text[], text[], bytea[]) is
  'Ends leases whose payments met a hold: no attempt is written and none is used up, the payment is due again after its delay, and payment_outbox_holds says why. A hold without a digest never met the rail: the host held the payment back. A row missing from the answer has lost its lease.';

grant execute on function symphony.hold_outbox_leases(text, uuid[], uuid[], double precision[], text[], text[], text[], bytea[])
  to symphony_executor;
