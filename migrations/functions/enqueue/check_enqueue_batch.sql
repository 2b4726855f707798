create or replace function symphony.check_enqueue_batch(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[], p_payloads jsonb[],
  p_now timestamptz)
  returns int
  language plpgsql stable
  as $$
declare
  v_rows int := coalesce(cardinality(p_instruction_ids), 0);
begin
  if v_rows > 10000 then
    raise exception 'a batch has at most 10000 rows, not %', v_rows using errcode = '22023';
  end if;
  if num_nulls(p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads) > 0
     or cardinality(p_participant_ids) <> v_rows or cardinality(p_idempotency_keys) <> v_rows
     or cardinality(p_rail_types) <> v_rows or cardinality(p_payloads) <> v_rows then
    raise exception 'the arrays of a batch must be given and of one length' using errcode = '22023';
  end if;
  -- Ids are made a moment after this check: with a minute of margin, no verdict will lack its partition.
  if not exists (select 1 from symphony.payment_outbox_partitions where detached_at is null
                  having min(from_at) <= p_now and max(until_at) > p_now + interval '1 minute') then
    raise exception 'no partition of the history would take a payment accepted at %', p_now
      using errcode = 'P7007', hint = 'run railhost retention, which creates partitions ahead';
  end if;
  return v_rows;
end
$$;

comment on function symphony.check_enqueue_batch(text[], text[], text[], text[], jsonb[], timestamptz) is
  'How many rows a batch has, or an error: where it has too many, where its arrays differ in length, or where the history has no month for its payments.';
