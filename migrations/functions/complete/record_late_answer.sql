create or replace function symphony.record_late_answer(
  p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_state text, p_rail_reference text, p_rail_code text,
  p_error_code text, p_error_message text, p_latency_ms int, p_money_moved text default 'unknown',
  p_adapter_digest bytea default null, p_of_key boolean default false)
  returns boolean
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_lease_arguments(1, p_worker_id, 1);
  if p_state is null or p_state not in ('DISPATCHED', 'FAILED', 'RETRYABLE') then
    raise exception '% is not a state that a holder may give', coalesce(p_state, 'null') using errcode = 'P7003';
  end if;
  if p_lease_token is null or p_money_moved is null or p_money_moved not in ('yes', 'no', 'unknown')
     or octet_length(p_adapter_digest) <> 32 then
    raise exception 'a late answer needs its lease token, money_moved (yes, no or unknown) and, if any, a digest of 32 bytes'
      using errcode = '22023';
  end if;
  perform symphony.lock_payment(p_outbox_id);
  if symphony.payment_state(p_outbox_id) is null then
    raise exception 'payment % is not known', p_outbox_id using errcode = 'P0002';
  end if;
  insert into symphony.payment_outbox_late_answers
         (outbox_id, lease_token, worker_id, state, money_moved, rail_reference, rail_code, error_code, error_message,
          latency_ms, adapter_digest, of_key, recorded_at)
  values (p_outbox_id, p_lease_token, p_worker_id, p_state, p_money_moved, left(p_rail_reference, 256),
          left(p_rail_code, 256), left(p_error_code, 256), left(p_error_message, 2000), p_latency_ms, p_adapter_digest,
          p_of_key,
          -- Later than every finding that did not know of it, even if the clock went back since.
          greatest(symphony.clock(), (select max(r.resolved_at) + interval '1 microsecond'
                                        from symphony.payment_outbox_resolutions r
                                       where r.outbox_id = p_outbox_id)))
  on conflict (outbox_id, lease_token) do nothing;
  return found;
end
$$;

comment on function symphony.record_late_answer(uuid, uuid, text, text, text, text, text, text, int, text, bytea, boolean) is
  'Keeps what a holder heard after it lost its lease, or (p_of_key) what a rail said in a signed callback. True the first time, false if the token was recorded before. Changes no state.';

grant execute on function symphony.record_late_answer(uuid, uuid, text, text, text, text, text, text, int, text, bytea, boolean)
  to symphony_executor;
