-- Longer than a screen: much of it names the arrays of a batch, and one more function would have to be given them all again.
create or replace function symphony.enqueue_payment_outbox_batch(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[], p_payloads jsonb[])
  returns table (ordinal int, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
                 replayed boolean, refusal text, refusal_detail text)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  -- Plans are made once a session: to plan or to compile takes longer than a batch. Such a plan must suit any number of
  -- payments and records: it looks keys and participants up by index and never reads a table. A merge join would sort.
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set jit = off
  set enable_mergejoin = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
  v_rows int := symphony.check_enqueue_batch(p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types,
                                             p_payloads, v_now);
  v_fronts jsonb := symphony.queue_fronts(p_rail_types, v_now);
  v_problems text[];
  v_digests uuid[];
  v_hashes bytea[];
  v_fresh boolean[];
  v_suspended boolean[];
  v_fresh_count int;
  v_ids uuid[];
  v_numbers bigint[];
  v_times timestamptz[];
  v_constraint text;
begin
  select e.problems, e.digests, e.hashes
    into v_problems, v_digests, v_hashes
    from symphony.examine_payments(p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads) e;

  -- Another session may record one of our keys between our look and our insert. Then the block is rolled back, the numbers
  -- of this round are given back with it, and the next round sees the other's record.
  for v_round in 1..100 loop
    select f.fresh, f.suspended
      into v_fresh, v_suspended
      from symphony.find_new_payments(v_problems, v_digests, p_participant_ids, v_round = 1) f;
    v_fresh_count := coalesce(cardinality(array_positions(v_fresh, true)), 0);
    v_ids := null;
    v_numbers := null;
    exit when v_fresh_count = 0;
    begin
      select a.ids, a.numbers, a.times
        into v_ids, v_numbers, v_times
        from symphony.accept_payments(v_fresh, v_digests, v_hashes, v_fronts, p_instruction_ids, p_participant_ids,
                                      p_idempotency_keys, p_rail_types, p_payloads) a;
      exit;
    exception
      when unique_violation then
        get stacked diagnostics v_constraint = constraint_name;
        if v_constraint <> 'payment_outbox_records_pkey' then
          raise;
        end if;
        -- With one snapshot for the whole transaction, the next round could not see the other's record.
        if v_round = 100 or current_setting('transaction_isolation') <> 'read committed' then
          raise exception 'another session is recording the same keys' using errcode = '40001';
        end if;
    end;
  end loop;

  if v_fresh_count > 0 then
    perform symphony.notify_hosts();
  end if;

  if v_fresh_count = v_rows then
    return query
      select t.ord::int, t.id, t.number, t.at, 'PENDING', false, null::text, null::text
        from unnest(v_ids, v_numbers, v_times) with ordinality as t(id, number, at, ord)
       order by t.ord;
  else
    return query
      select a.*
        from symphony.answer_mixed_batch(v_problems, v_digests, v_hashes, v_ids, v_numbers, p_participant_ids,
                                         p_instruction_ids, p_idempotency_keys, v_suspended) a;
  end if;
end
$$;

comment on function symphony.enqueue_payment_outbox_batch(text[], text[], text[], text[], jsonb[]) is
  'Accepts up to 10,000 payments, answers in input order. A refused row says why by SQLSTATE and has no id; its neighbours go in. A replay takes no number.';

grant execute on function symphony.enqueue_payment_outbox_batch(text[], text[], text[], text[], jsonb[])
  to symphony_ingest;
