-- Longer than a screen, because one statement ends the leases and writes their history: two would hand the rows from one to
-- the other, payload and all, and a function for it would take the same eighteen arrays.
create or replace function symphony.complete_outbox_batch(
  p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_states text[],
  p_rail_references text[] default null, p_rail_codes text[] default null, p_error_codes text[] default null,
  p_error_messages text[] default null, p_latencies_ms int[] default null,
  p_retry_delay_seconds double precision[] default null, p_money_moved text[] default null,
  p_unsettled boolean[] default null, p_adapter_digests bytea[] default null, p_rail_digests bytea[] default null,
  p_request_digests bytea[] default null, p_reply_digests bytea[] default null, p_witnesses text[] default null,
  p_facts jsonb[] default null, p_key_prefixes text[] default null)
  returns table (ordinal int, outbox_id uuid, attempt_no int, state text, repeated boolean, refusal text,
                 refusal_detail text)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  -- Plans are made once a session: to plan or to compile takes longer than a batch. Such a plan must suit an empty queue and
  -- one of millions: it takes the given payments one by one and looks each up by index. It never reads a table, neither to
  -- scan it nor to hash or merge it with the batch.
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set jit = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  as $$
#variable_conflict use_column
declare
  v_rows int := coalesce(cardinality(p_outbox_ids), 0);
  v_now timestamptz := symphony.clock();
  v_sound boolean := symphony.check_lease_arguments(v_rows, p_worker_id, 1);
  v_ids uuid[];
  v_last int[];
  v_repeats boolean[];
  v_has_past boolean;
  v_hits int[];
  v_numbers int[];
  v_states text[];
  v_ended text[];
  v_some_strict boolean;
  -- The attempts of a batch share the time and 54 random bits of a version-7 id; the last five digits differ. A whole id for
  -- each would cost a tenth of the completion.
  v_name text := left(symphony.uuidv7()::text, 15) || substr(gen_random_uuid()::text, 16, 16);
begin
  if num_nulls(p_lease_tokens, p_states) > 0
     or v_rows <> any (array[cardinality(p_lease_tokens), cardinality(p_states), cardinality(p_rail_references),
                             cardinality(p_rail_codes), cardinality(p_error_codes), cardinality(p_error_messages),
                             cardinality(p_latencies_ms), cardinality(p_retry_delay_seconds),
                             cardinality(p_money_moved), cardinality(p_unsettled), cardinality(p_adapter_digests),
                             cardinality(p_rail_digests), cardinality(p_request_digests),
                             cardinality(p_reply_digests), cardinality(p_witnesses), cardinality(p_facts),
                             cardinality(p_key_prefixes)]) then
    raise exception 'the arrays of a batch must be of one length' using errcode = '22023';
  end if;

  -- 1. Number the attempts. Nearly every payment ends with its first attempt and is named once: one look for the batch spares one for each row. The
  -- range of ids keeps it out of the other months.
  v_ids := array(select distinct t.id from unnest(p_outbox_ids) as t(id) where t.id is not null order by t.id);
  v_has_past := exists (select 1
                          from symphony.payment_outbox_attempts a
                         where a.outbox_id = any (v_ids)
                           and a.outbox_id between v_ids[1] and v_ids[cardinality(v_ids)]);
  -- Reading the last number before the row is locked is safe: if the fence below lets us through, nobody else has written
  -- an attempt since.
  if v_has_past then
    v_last := symphony.last_attempt_numbers(p_outbox_ids);
  end if;
  -- 2. A payment that the batch names twice counts once.
  if cardinality(v_ids) < v_rows then
    v_repeats := symphony.find_repeats(p_outbox_ids, p_lease_tokens, p_states, p_retry_delay_seconds, p_money_moved,
                                       p_unsettled, p_adapter_digests);
  end if;

  -- 3. End the leases under the fence (ended, rescheduled) and write the history, in one statement. Sorted by id, so that two batches with common rows lock them in the same order.
  with work as materialized (
    select w.*, w.last_no + 1 as no, w.given <> 'RETRYABLE' or w.last_no + 1 >= symphony.attempts_max() as terminal,
           coalesce(w.error_code in ('OUTCOME_UNKNOWN', 'RAIL_PENDING'), false)
           or coalesce(w.money = 'unknown', false) as sounds_unsettled
      from (select t.*, coalesce(v_last[t.ord], 0) as last_no
              from unnest(p_outbox_ids, p_lease_tokens, p_states, p_rail_references, p_rail_codes, p_error_codes,
                          p_error_messages, p_latencies_ms, p_retry_delay_seconds, p_money_moved, p_unsettled,
                          p_adapter_digests, p_rail_digests, p_request_digests, p_reply_digests, p_witnesses, p_facts,
                          p_key_prefixes)
                   with ordinality as t(id, token, given, reference, rail_code, error_code, error_message, latency_ms,
                                        delay, money, says_unsettled, digest, rail_digest, request_digest, reply_digest,
                                        witness, facts, key_prefix, ord)
             where symphony.completion_problem(t.given, t.money, t.says_unsettled, t.delay, t.digest) is null
               and v_repeats[t.ord] is not true) w
     where w.last_no < symphony.attempts_max()
     order by w.id
  ),
  ended as (
    delete from symphony.payment_outbox_pending p
     using work w
     where w.terminal
       and p.outbox_id = any (array[w.id]) and p.lease_token = w.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now
    returning w.*, p.sequence_id, p.claimed_at, p.instruction_id, p.participant_id, p.idempotency_key, p.rail_type,
              p.payload, coalesce(w.says_unsettled, p.unsettled or w.sounds_unsettled) as now_unsettled
  ),
  rescheduled as (
    update symphony.payment_outbox_pending p
       set claimed_by = null, lease_token = null, lease_expires_at = null,
           unsettled = coalesce(w.says_unsettled, p.unsettled or w.sounds_unsettled),
           handed_over_at = case when coalesce(w.says_unsettled, p.unsettled or w.sounds_unsettled) then p.handed_over_at end,
           attempt_count = greatest(p.attempt_count, w.no),
           next_attempt_at = v_now + make_interval(secs => coalesce(w.delay, 1))
      from work w
     where not w.terminal
       and p.outbox_id = any (array[w.id]) and p.lease_token = w.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now
    returning w.*, p.sequence_id, p.claimed_at, p.instruction_id, p.participant_id, p.idempotency_key, p.rail_type,
              null::jsonb as payload, p.unsettled as now_unsettled
  ),
  fenced as not materialized (
    select h.*, h.given = 'RETRYABLE' and h.terminal as forced
      from (select * from ended union all select * from rescheduled) h
  ),
  written as (
    insert into symphony.payment_outbox_attempts
           (outbox_id, attempt_id, lease_token, sequence_id, claimed_at, completed_at, created_at, attempt_no, latency_ms, state,
            instruction_id, participant_id, idempotency_key, rail_type, worker_id, money_moved, rail_reference, rail_code,
            error_code, error_message, adapter_digest, rail_digest, request_digest, reply_digest, witness, facts, key_prefix,
            payload)
    select h.id, (v_name || (10000 + h.ord))::uuid, h.token, h.sequence_id, h.claimed_at, v_now, v_now, h.no, h.latency_ms,
           case when h.forced then 'FAILED' else h.given end::symphony.outbox_attempt_state,
           h.instruction_id, h.participant_id, h.idempotency_key, h.rail_type, p_worker_id,
           case when h.given = 'DISPATCHED' then 'yes'
                when h.given = 'FAILED' then coalesce(h.money, 'unknown')
                when h.now_unsettled then 'unknown'
                else 'no' end,
           left(h.reference, 256), left(h.rail_code, 256),
           case when h.forced and h.now_unsettled then 'OUTCOME_UNKNOWN'
                when h.forced then 'RETRIES_EXHAUSTED'
                else left(h.error_code, 256) end,
           left(h.error_message, 2000), h.digest, h.rail_digest, h.request_digest, h.reply_digest, left(h.witness, 1000),
           h.facts, h.key_prefix, h.payload
      from fenced h
  )
  select array_agg(h.ord::int), array_agg(h.no), array_agg(case when h.forced then 'FAILED' else h.given end),
         array_agg(h.participant_id) filter (where h.terminal),
         exists (select 1 from symphony.participants s where s.strict_order)
    into v_hits, v_numbers, v_states, v_ended, v_some_strict
    from fenced h;

  -- 4. Free the next payment of a strict stream.
  if v_some_strict then
    perform symphony.promote_strict_heads(v_ended);
  end if;

  -- 5. Answer in input order.
  if cardinality(v_hits) = v_rows then
    return query
      select t.ord, p_outbox_ids[t.ord], t.no, t.state, false, null::text, null::text
        from unnest(v_hits, v_numbers, v_states) as t(ord, no, state)
       order by t.ord;
  else
    return query
      select a.*
        from symphony.answer_mixed_completions(p_worker_id, p_outbox_ids, p_lease_tokens, p_states, p_retry_delay_seconds,
                                               p_money_moved, p_unsettled, p_adapter_digests, v_hits, v_numbers, v_states) a;
  end if;
end
$$;

comment on function symphony.complete_outbox_batch(text, uuid[], uuid[], text[], text[], text[], text[], text[], int[], double precision[], text[], boolean[], bytea[], bytea[], bytea[], bytea[], text[], jsonb[], text[]) is
  'Ends leases with their outcomes and answers in input order. A lost lease is the answer of its row, not an error of the batch.';

grant execute on function symphony.complete_outbox_batch(text, uuid[], uuid[], text[], text[], text[], text[], text[], int[], double precision[], text[], boolean[], bytea[], bytea[], bytea[], bytea[], text[], jsonb[], text[])
  to symphony_executor;
