create or replace function symphony.repair_expired_leases(p_batch_size int, p_worker_id text)
  returns table (outbox_id uuid, attempt_no int, state text, rail_type text)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_lease_arguments(p_batch_size, p_worker_id, 1);
  return query
    select z.outbox_id, z.attempt_no, z.state, z.rail_type
      from symphony.requeue_expired(p_batch_size, p_worker_id, interval '1 second', null, 1000) z;
end
$$;

comment on function symphony.repair_expired_leases(int, text) is
  'Frees payments whose lease ran out because its holder is gone. Safe on every host at once: rows that another one has locked are skipped.';

grant execute on function symphony.repair_expired_leases(int, text)
  to symphony_executor;
