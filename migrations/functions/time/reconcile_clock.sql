create or replace function symphony.reconcile_clock(p_limit int) returns int
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  -- To compile takes longer than to run, in all but the one call in years that reads the queue.
  set jit = off
  as $$
declare
  v_now timestamptz := symphony.clock();
  v_soon timestamptz := v_now + interval '2 seconds';
  -- No lease is longer.
  v_longest timestamptz := v_soon + interval '1 hour';
  v_ids uuid[];
  v_waits interval[];
  v_claims timestamptz[];
  v_rows int;
begin
  perform symphony.check_lease_arguments(p_limit, 'reconcile', 1);
  if not symphony.clock_went_back(v_now) then
    update symphony.clock_marks m set seen_at = v_now where m.seen_at < v_now - interval '1 second';
    return 0;
  end if;
  -- This happens once in years. Then the whole queue is read, by one host at a time.
  if not pg_try_advisory_xact_lock(hashtext('symphony.reconcile_clock')) then
    return 0;
  end if;

  update symphony.payment_outbox_claims c
     set lease_expires_at = v_now + (c.lease_expires_at - c.claimed_at), claimed_at = v_now
   where c.claimed_at > v_soon;
  update symphony.rail_fronts f set front = v_now where f.front > v_soon;
  update symphony.relay_hosts h set seen_at = v_now where h.seen_at > v_soon;

  select a.ids, a.waits, a.claims
    into v_ids, v_waits, v_claims
    from symphony.lock_rows_ahead(v_now, v_soon, v_longest, p_limit) a;
  v_rows := coalesce(cardinality(v_ids), 0);
  perform symphony.bring_rows_back(v_ids, v_waits, v_claims, v_now, v_soon, v_longest);

  -- As long as rows are left the mark stays ahead, even where nothing else shows the jump any more.
  update symphony.clock_marks m set seen_at = case when v_rows < p_limit then v_now else 'infinity' end;
  if v_rows > 0 then
    perform symphony.notify_hosts();
  end if;
  return v_rows;
end
$$;

comment on function symphony.reconcile_clock(int) is
  'After the database''s clock went back: corrects a bounded number of rows with times in the future. A payment that was never tried is due at once, a delay keeps its length, and a lease lasts its full length from now. 0 means that nothing is left to do. To be called every few seconds: it costs one look. created_at stays.';

grant execute on function symphony.reconcile_clock(int)
  to symphony_executor;
