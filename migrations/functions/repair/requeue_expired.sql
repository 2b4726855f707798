create or replace function symphony.requeue_expired(
  p_limit int, p_worker_id text, p_delay interval, p_rail_type text, p_claims int)
  returns table (outbox_id uuid, attempt_no int, state text, rail_type text)
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  -- Claims and rows are found by index, however few of them the statistics show. Nothing here runs long enough to compile for.
  set enable_seqscan = off
  set jit = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
  v_left int := p_limit;
  v_claim record;
  v_held uuid[];
  v_ids uuid[];
  v_found record;
  v_ended text[];
begin
  for v_claim in
    select c.lease_expires_at, c.lease_token, c.outbox_ids
      from symphony.payment_outbox_claims c
     where c.lease_expires_at <= v_now
       and (p_rail_type is null or c.rail_type = p_rail_type)
     order by c.lease_expires_at
     limit p_claims
       for update skip locked
  loop
    select l.held, l.ids
      into v_held, v_ids
      from symphony.lock_expired_rows(v_claim.outbox_ids, v_claim.lease_token, v_now, v_left) l;
    if v_ids is not null then
      for v_found in select e.* from symphony.end_expired_leases(v_ids, p_worker_id, v_now, p_delay) e loop
        outbox_id := v_found.outbox_id;
        attempt_no := v_found.attempt_no;
        state := v_found.state;
        rail_type := v_found.rail_type;
        if v_found.state = 'FAILED' then
          v_ended := v_ended || v_found.participant_id::text;
        end if;
        return next;
      end loop;
      v_left := v_left - cardinality(v_ids);
    end if;
    perform symphony.refresh_claim(v_claim.lease_expires_at, v_claim.lease_token, v_held);
    exit when v_left <= 0;
  end loop;

  -- Once for all claims, so that the streams are locked in one order.
  if v_ended is not null then
    perform symphony.promote_strict_heads(v_ended);
  end if;
end
$$;

comment on function symphony.requeue_expired(int, text, interval, text, int) is
  'Ends expired leases, each with its row in the history: ZOMBIE_REQUEUE, or FAILED at the ceiling. Shared by repair and claim.';
