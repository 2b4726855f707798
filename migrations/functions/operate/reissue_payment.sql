create or replace function symphony.reissue_payment(
  p_predecessor_id uuid, p_instruction_id text, p_idempotency_key text, p_by text, p_why text,
  p_payload jsonb default null)
  returns table (outbox_id uuid, sequence_id bigint)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
#variable_conflict use_column
declare
  v_old record;
  v_new record;
begin
  perform symphony.lock_payment(p_predecessor_id);
  v_old := symphony.find_reissuable(p_predecessor_id);

  select * into v_new
    from symphony.enqueue_payment_outbox_batch(
           array[p_instruction_id], array[v_old.participant_id::text], array[p_idempotency_key],
           array[v_old.rail_type::text], array[coalesce(p_payload, v_old.payload)]);
  if v_new.refusal is not null then
    raise exception '%', v_new.refusal_detail using errcode = v_new.refusal;
  end if;
  if v_new.replayed then
    -- The key is on record: as the successor from an earlier call, or as another payment.
    if not exists (select 1 from symphony.payment_outbox_reissues r
                    where r.predecessor_id = p_predecessor_id and r.successor_id = v_new.outbox_id) then
      raise exception 'key (%, %) belongs to another payment', p_instruction_id, p_idempotency_key using errcode = 'P7008';
    end if;
    return query select v_new.outbox_id, v_new.sequence_id;
    return;
  end if;

  perform symphony.note_act('reissue_payment', p_predecessor_id::text, p_by, p_why,
                            jsonb_build_object('successor_id', v_new.outbox_id));
  insert into symphony.payment_outbox_reissues (predecessor_id, successor_id, by_whom, why, reissued_at)
  values (p_predecessor_id, v_new.outbox_id, p_by, p_why, symphony.clock())
  on conflict do nothing;
  if not found then
    raise exception 'payment % was reissued already', p_predecessor_id using errcode = 'P7008';
  end if;
  return query select v_new.outbox_id, v_new.sequence_id;
end
$$;

comment on function symphony.reissue_payment(uuid, text, text, text, text, jsonb) is
  'A new payment in place of one that failed without moving money: new instruction, new key, the same participant and rail. The same call again answers with the same successor.';

grant execute on function symphony.reissue_payment(uuid, text, text, text, text, jsonb)
  to symphony_operator;
