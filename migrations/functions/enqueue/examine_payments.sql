create or replace function symphony.examine_payments(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[], p_payloads jsonb[],
  out problems text[], out digests uuid[], out hashes bytea[])
  language plpgsql stable
  as $$
begin
  -- The text of a payload is made once, for its length and its hash. Without OFFSET it would be made twice.
  select array_agg(symphony.enqueue_problem(t.i, t.p, t.k, t.r, t.b, t.body) order by t.ord),
         array_agg(symphony.key_digest(t.i, t.k) order by t.ord),
         array_agg(symphony.request_hash(t.p, t.r, t.body) order by t.ord)
    into problems, digests, hashes
    from (select u.*, u.b::text as body
            from unnest(p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads)
                 with ordinality as u(i, p, k, r, b, ord)
          offset 0) t;
end
$$;

comment on function symphony.examine_payments(text[], text[], text[], text[], jsonb[]) is
  'Per payment of a batch: what is wrong with it, the digest of its key, the hash of its request.';
