create or replace function symphony.reconcile_parking(p_limit int default 10000) returns int
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  -- Parked rows and streams are found by index, however few of them the statistics show. To compile takes longer than to run.
  set enable_seqscan = off
  set jit = off
  as $$
declare
  v_now timestamptz := symphony.clock();
  v_ids uuid[];
  v_freed int := 0;
  v_parked int := 0;
  v_everywhere boolean;
  v_streams text[];
begin
  perform symphony.check_lease_arguments(p_limit, 'reconcile', 1);

  v_ids := symphony.find_wrongly_parked(p_limit);
  if cardinality(v_ids) > 0 then
    v_freed := symphony.unpark(v_ids, v_now);
  end if;

  -- Strict streams are parked only under their lock, as in a claim: a verdict that we do not see yet waits for us, and then
  -- promotes the row.
  v_streams := symphony.lock_strict_streams();

  -- First only up to the first parked row of each stream; if nothing is left there, everywhere.
  foreach v_everywhere in array array[false, true] loop
    exit when v_freed >= p_limit;
    v_ids := symphony.find_unparked(v_streams, v_everywhere, p_limit - v_freed);
    continue when cardinality(v_ids) = 0;
    v_ids := array(
      select p.outbox_id
        from symphony.payment_outbox_pending p
       where p.outbox_id = any (v_ids) and not p.parked and not p.unsettled and p.lease_token is null
         for update skip locked);
    update symphony.payment_outbox_pending p
       set parked = true
     where p.outbox_id = any (v_ids);
    get diagnostics v_parked = row_count;
    exit when v_parked > 0;
  end loop;

  if v_freed > 0 then
    perform symphony.notify_hosts();
  end if;
  return v_freed + v_parked;
end
$$;

comment on function symphony.reconcile_parking(int) is
  'Parks and frees rows as the switches say, a bounded number per call; 0 means that nothing is left to do. Rows that claims meet in the meantime are parked by them.';

grant execute on function symphony.reconcile_parking(int)
  to symphony_executor, symphony_operator;
