create or replace function symphony.enqueue_payment_outbox(
  p_instruction_id text, p_participant_id text, p_idempotency_key text, p_rail_type text, p_payload jsonb)
  returns table (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_answer record;
begin
  select * into v_answer
    from symphony.enqueue_payment_outbox_batch(
           array[p_instruction_id], array[p_participant_id], array[p_idempotency_key], array[p_rail_type],
           array[p_payload]);
  if v_answer.refusal is not null then
    raise exception '%', v_answer.refusal_detail using errcode = v_answer.refusal;
  end if;
  return query select v_answer.outbox_id, v_answer.sequence_id, v_answer.created_at, v_answer.state;
end
$$;

comment on function symphony.enqueue_payment_outbox(text, text, text, text, jsonb) is
  'Accepts one payment inside the caller''s own transaction. A repeat answers with the first row; another body under the same key raises P7004.';

grant execute on function symphony.enqueue_payment_outbox(text, text, text, text, jsonb)
  to symphony_ingest;
