create or replace function symphony.hint_payment(p_rail_type text, p_outbox_id uuid, p_settles boolean default false) returns boolean
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_now timestamptz := symphony.clock();
begin
  if p_rail_type is null or p_outbox_id is null then
    raise exception 'a hint names a rail and a payment' using errcode = '22023';
  end if;
  update symphony.payment_outbox_pending p
     set next_attempt_at = v_now
   where p.outbox_id = p_outbox_id and p.rail_type = p_rail_type
     and p.unsettled and p.lease_token is null and p.next_attempt_at > v_now
     and (p_settles or p.attempt_count < symphony.attempts_max() / 2);
  if not found then
    return false;
  end if;
  perform symphony.notify_hosts();
  return true;
end
$$;

comment on function symphony.hint_payment(text, uuid, boolean) is
  'A rail said that it has news of a payment: the status query that is scheduled for it is due now. Nothing else changes, and nothing of a payment that is leased, settled or unsent. Hints bring forward only the first half of the attempts, so that no number of hints uses them all up. p_settles lifts this limit: an answer is kept, and nothing will be asked.';

grant execute on function symphony.hint_payment(text, uuid, boolean)
  to symphony_executor;
