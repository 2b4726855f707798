create or replace function symphony.answer_mixed_batch(
  p_problems text[], p_digests uuid[], p_hashes bytea[], p_ids uuid[], p_numbers bigint[], p_participant_ids text[],
  p_instruction_ids text[], p_idempotency_keys text[], p_suspended boolean[])
  returns table (ordinal int, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
                 replayed boolean, refusal text, refusal_detail text)
  language plpgsql
  as $$
#variable_conflict use_column
begin
  return query
    select t.ord::int,
           coalesce(t.id, case when r.request_hash = t.hash then r.outbox_id end),
           coalesce(t.number, case when r.request_hash = t.hash then r.sequence_id end),
           symphony.uuidv7_time(coalesce(t.id, case when r.request_hash = t.hash then r.outbox_id end)),
           case when t.id is not null then 'PENDING'
                when r.request_hash = t.hash then symphony.payment_state(r.outbox_id) end,
           t.id is null and coalesce(r.request_hash = t.hash, false),
           case when t.problem is not null then '22023'
                when t.id is not null then null
                when t.suspended then 'P7006'
                when r.request_hash <> t.hash then 'P7004' end,
           case when t.problem is not null then t.problem
                when t.id is not null then null
                when t.suspended then format('participant %s is suspended', t.participant)
                when r.request_hash <> t.hash
                  then format('key (%s, %s) was used with another request', t.instruction, t.key) end
      from unnest(p_problems, p_digests, p_hashes, p_ids, p_numbers, p_participant_ids, p_instruction_ids,
                  p_idempotency_keys, p_suspended)
           with ordinality as t(problem, digest, hash, id, number, participant, instruction, key, suspended, ord)
      left join symphony.payment_outbox_records r
        on r.key_digest = t.digest and t.problem is null and t.id is null and not t.suspended
     order by t.ord;
end
$$;

comment on function symphony.answer_mixed_batch(text[], uuid[], bytea[], uuid[], bigint[], text[], text[], text[], boolean[]) is
  'The answers to a batch of which not all went in: new payments, replays and refusals, in input order.';
