create or replace function symphony.cancel_payment(p_outbox_id uuid, p_by text, p_why text) returns int
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_row symphony.payment_outbox_pending;
  v_now timestamptz := symphony.clock();
  v_no int;
  v_obstacle text;
begin
  perform symphony.lock_payment(p_outbox_id);
  -- A claim that is taking this row now ends first, and then the row is leased. A later claim skips it.
  select * into v_row from symphony.payment_outbox_pending p where p.outbox_id = p_outbox_id for update;
  if not found then
    v_obstacle := symphony.payment_state(p_outbox_id);
    if v_obstacle is null then
      raise exception 'payment % is not known', p_outbox_id using errcode = 'P0002';
    end if;
    raise exception 'payment % cannot be cancelled: it has a verdict, %', p_outbox_id, v_obstacle using errcode = 'P7008';
  end if;
  v_obstacle := case
    when v_row.lease_token is not null
      then format('%s has it in hand now; try again when the lease is over', v_row.claimed_by)
    when v_row.unsettled or v_row.handed_over_at is not null
         or exists (select 1 from symphony.payment_outbox_attempts a
                     where a.outbox_id = p_outbox_id and a.money_moved <> 'no')
         or exists (select 1 from symphony.payment_outbox_late_answers l
                     where l.outbox_id = p_outbox_id and (l.money_moved <> 'no' or l.state = 'DISPATCHED'))
      then 'it may have left; wait for its verdict' end;
  if v_obstacle is not null then
    raise exception 'payment % cannot be cancelled: %', p_outbox_id, v_obstacle using errcode = 'P7008';
  end if;

  delete from symphony.payment_outbox_pending p where p.outbox_id = p_outbox_id;
  insert into symphony.payment_outbox_attempts
         (outbox_id, lease_token, sequence_id, claimed_at, completed_at, created_at, attempt_no, state, by_holder,
          instruction_id, participant_id, idempotency_key, rail_type, worker_id, money_moved, error_code, error_message,
          payload)
  select p_outbox_id, gen_random_uuid(), v_row.sequence_id, v_now, v_now, v_now, coalesce(max(a.attempt_no), 0) + 1,
         'FAILED', false, v_row.instruction_id, v_row.participant_id, v_row.idempotency_key, v_row.rail_type, 'operator',
         'no', 'CANCELLED', left(format('cancelled by %s: %s', p_by, p_why), 2000), v_row.payload
    from symphony.payment_outbox_attempts a
   where a.outbox_id = p_outbox_id
  returning attempt_no into v_no;
  perform symphony.note_act('cancel_payment', p_outbox_id::text, p_by, p_why, jsonb_build_object('attempt_no', v_no));
  perform symphony.promote_strict_heads(array[v_row.participant_id::text]);
  return v_no;
end
$$;

comment on function symphony.cancel_payment(uuid, text, text) is
  'Cancels a payment of which nothing can have left: its verdict is FAILED with CANCELLED, no money moved, and its stream goes on. It works also where the rail is paused or not served, and where the payment is parked. Answers with the number of the attempt.';

grant execute on function symphony.cancel_payment(uuid, text, text)
  to symphony_operator;
