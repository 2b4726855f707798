create or replace function symphony.accept_payments(
  p_fresh boolean[], p_digests uuid[], p_hashes bytea[], p_fronts jsonb, p_instruction_ids text[],
  p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[], p_payloads jsonb[],
  out ids uuid[], out numbers bigint[], out times timestamptz[])
  language plpgsql
  as $$
#variable_conflict use_column
declare
  v_places bigint[];
begin
  select n.numbers, n.places, n.ids
    into numbers, v_places, ids
    from symphony.number_payments(p_fresh, p_participant_ids, p_rail_types, p_fronts) n;

  insert into symphony.payment_outbox_records (key_digest, outbox_id, sequence_id, request_hash, participant_id)
  select t.digest, t.id, t.number, t.hash, t.participant
    from unnest(p_fresh, p_digests, ids, numbers, p_hashes, p_participant_ids)
         as t(fresh, digest, id, number, hash, participant)
   where t.fresh
   order by t.digest;

  times := array(select symphony.uuidv7_time(t.id) from unnest(ids) with ordinality as t(id, ord) order by t.ord);
  insert into symphony.payment_outbox_pending
         (outbox_id, sequence_id, next_attempt_at, created_at, instruction_id, participant_id, idempotency_key,
          rail_type, payload)
  select t.id, t.number, least(t.at, timestamptz 'epoch' + t.place * interval '1 microsecond'), t.at,
         t.i, t.p, t.k, t.r, t.b
    from unnest(p_fresh, ids, times, numbers, v_places, p_instruction_ids, p_participant_ids,
                p_idempotency_keys, p_rail_types, p_payloads)
         as t(fresh, id, at, number, place, i, p, k, r, b)
   where t.fresh;
end
$$;

comment on function symphony.accept_payments(boolean[], uuid[], bytea[], jsonb, text[], text[], text[], text[], jsonb[]) is
  'Numbers the new payments of a batch, puts them on the permanent record in the order of their digests, and into the queue. Fails with unique_violation where another session has recorded one of the keys.';
