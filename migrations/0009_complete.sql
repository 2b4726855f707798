-- Verdicts: the only way out of a lease, fenced by its token.
set local role symphony_control;

create function symphony.completion_problem(
  p_state text, p_money_moved text, p_unsettled boolean, p_retry_delay_seconds double precision, p_adapter_digest bytea)
  returns text
  language sql stable
  as $$
    select case when p_state is null or p_state not in ('DISPATCHED', 'FAILED', 'RETRYABLE')
                  then format('P7003 %s is no state that a holder may give', coalesce(p_state, 'null'))
                when p_money_moved not in ('yes', 'no', 'unknown')
                  then format('22023 money_moved must be yes, no or unknown, not %s', p_money_moved)
                when (p_state = 'DISPATCHED') <> (p_money_moved = 'yes')
                  then format('22023 money_moved = %s contradicts %s', p_money_moved, p_state)
                when p_state = 'RETRYABLE' and p_money_moved = 'unknown' and not p_unsettled
                  then '22023 the past cannot be settled while it is unknown whether money moved'
                when p_retry_delay_seconds is not null and p_retry_delay_seconds not between 0 and 2678400
                  then format('22023 retry_delay_seconds must be between 0 and 2678400, not %s', p_retry_delay_seconds)
                when octet_length(p_adapter_digest) <> 32
                  then '22023 adapter_digest must have 32 bytes' end
  $$;

comment on function symphony.completion_problem(text, text, boolean, double precision, bytea) is
  'Why an outcome cannot be written, as SQLSTATE and sentence; null if it can.';

create function symphony.complete_outbox_batch(
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
  -- Names of attempts: ids of version 7 that share the time and 54 random bits and have five digits of their own behind.
  -- Drawing all of each would be a tenth of a completion.
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

  -- Nearly every payment ends with its first attempt, and none is named twice: one look for all of them spares one for each.
  -- Between the first and the last id it need not look into the other months.
  v_ids := array(select distinct t.id from unnest(p_outbox_ids) as t(id) where t.id is not null order by t.id);
  v_has_past := exists (select 1
                          from symphony.payment_outbox_attempts a
                         where a.outbox_id = any (v_ids)
                           and a.outbox_id between v_ids[1] and v_ids[cardinality(v_ids)]);
  -- Reading the last number before the row is locked is safe: if the fence below lets us through, nobody else could have
  -- written an attempt since.
  if v_has_past then
    v_last := array(
      select coalesce((select a.attempt_no
                         from symphony.payment_outbox_attempts a
                        where a.outbox_id = t.id
                        order by a.attempt_no desc
                        limit 1), 0)
        from unnest(p_outbox_ids) with ordinality as t(id, ord)
       order by t.ord);
  end if;
  if cardinality(v_ids) < v_rows then
    -- Of a lease that is named twice the first outcome counts that can be written.
    v_repeats := array(
      select row_number() over (
               partition by t.id, t.token,
                            symphony.completion_problem(t.given, t.money, t.says_unsettled, t.delay, t.digest) is null
               order by t.ord) > 1
        from unnest(p_outbox_ids, p_lease_tokens, p_states, p_retry_delay_seconds, p_money_moved, p_unsettled,
                    p_adapter_digests)
             with ordinality as t(id, token, given, delay, money, says_unsettled, digest, ord)
       order by t.ord);
  end if;

  -- Sorted by id, so that two batches with common rows lock them in one order.
  with work as materialized (
    select w.*, w.last_no + 1 as no, w.given <> 'RETRYABLE' or w.last_no >= 19 as terminal,
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
     where w.last_no < 20
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
  again as (
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
  hits as not materialized (
    select h.*, h.given = 'RETRYABLE' and h.terminal as forced
      from (select * from ended union all select * from again) h
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
      from hits h
  )
  select array_agg(h.ord::int), array_agg(h.no), array_agg(case when h.forced then 'FAILED' else h.given end),
         array_agg(h.participant_id) filter (where h.terminal),
         exists (select 1 from symphony.participants s where s.strict_order)
    into v_hits, v_numbers, v_states, v_ended, v_some_strict
    from hits h;

  if v_some_strict then
    perform symphony.promote_strict_heads(v_ended);
  end if;

  if cardinality(v_hits) = v_rows then
    return query
      select t.ord, p_outbox_ids[t.ord], t.no, t.state, false, null::text, null::text
        from unnest(v_hits, v_numbers, v_states) as t(ord, no, state)
       order by t.ord;
    return;
  end if;

  return query
    select a.ord, p_outbox_ids[a.ord], a.no, a.state, a.repeated, left(a.problem, 5), substr(a.problem, 7)
      from (select t.ord, t.no, t.state, false as repeated, null::text as problem
              from unnest(v_hits, v_numbers, v_states) as t(ord, no, state)
            union all
            select m.ord::int, b.attempt_no, b.state::text, b.outbox_id is not null,
                   case when m.problem is not null then m.problem
                        when b.outbox_id is not null then null
                        when exists (select 1 from symphony.payment_outbox_attempts c
                                      where c.outbox_id = m.id and c.attempt_no = 20)
                             and exists (select 1 from symphony.payment_outbox_pending p
                                          where p.outbox_id = m.id and p.lease_token = m.token)
                          then format('P7005 payment %s has 20 attempts already', m.id)
                        else format('P7002 lease %s of payment %s is not held by %s', m.token, m.id, p_worker_id) end
              from (select t.id, t.token, t.ord,
                           symphony.completion_problem(t.given, t.money, t.says_unsettled, t.delay, t.digest) as problem
                      from unnest(p_outbox_ids, p_lease_tokens, p_states, p_retry_delay_seconds, p_money_moved, p_unsettled,
                                  p_adapter_digests)
                           with ordinality as t(id, token, given, delay, money, says_unsettled, digest, ord)) m
              -- The token again: its first completion went through and the answer was lost on the way.
              left join symphony.payment_outbox_attempts b
                on b.outbox_id = m.id and b.lease_token = m.token and b.worker_id = p_worker_id
               and b.by_holder and m.problem is null
             where not (m.ord = any (coalesce(v_hits, '{}')))) a
     order by a.ord;
end
$$;

comment on function symphony.complete_outbox_batch(text, uuid[], uuid[], text[], text[], text[], text[], text[], int[], double precision[], text[], boolean[], bytea[], bytea[], bytea[], bytea[], text[], jsonb[], text[]) is
  'Ends leases with their outcomes, answers in input order. A lost lease is that row''s answer, not an error of the batch.';

create function symphony.complete_outbox_attempt(
  p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_state text, p_rail_reference text default null,
  p_rail_code text default null, p_error_code text default null, p_error_message text default null,
  p_latency_ms int default null, p_retry_delay_seconds double precision default 1,
  p_money_moved text default null, p_unsettled boolean default null, p_adapter_digest bytea default null,
  p_rail_digest bytea default null, p_request_digest bytea default null, p_reply_digest bytea default null,
  p_witness text default null, p_facts jsonb default null)
  returns table (attempt_no int, state text)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_answer record;
begin
  select * into v_answer
    from symphony.complete_outbox_batch(
           p_worker_id, array[p_outbox_id], array[p_lease_token], array[p_state], array[p_rail_reference],
           array[p_rail_code], array[p_error_code], array[p_error_message], array[p_latency_ms],
           array[p_retry_delay_seconds], array[p_money_moved], array[p_unsettled], array[p_adapter_digest],
           array[p_rail_digest], array[p_request_digest], array[p_reply_digest], array[p_witness], array[p_facts]);
  if v_answer.refusal is not null then
    raise exception '%', v_answer.refusal_detail using errcode = v_answer.refusal;
  end if;
  return query select v_answer.attempt_no, v_answer.state;
end
$$;

comment on function symphony.complete_outbox_attempt(uuid, uuid, text, text, text, text, text, text, int, double precision, text, boolean, bytea, bytea, bytea, bytea, text, jsonb) is
  'Ends one lease with its outcome, or raises P7002 when it is no longer held. FAILED says "money did not move" only where the caller says so; RETRYABLE keeps the past unsettled unless told otherwise.';

-- A state that is written as a plain literal is taken as text, so that the two never compete.
create function symphony.complete_outbox_attempt(
  p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_state symphony.outbox_attempt_state,
  p_rail_reference text default null, p_rail_code text default null, p_error_code text default null,
  p_error_message text default null, p_latency_ms int default null, p_retry_delay_seconds double precision default 1,
  p_money_moved text default null, p_unsettled boolean default null, p_adapter_digest bytea default null,
  p_rail_digest bytea default null, p_request_digest bytea default null, p_reply_digest bytea default null,
  p_witness text default null, p_facts jsonb default null)
  returns table (attempt_no int, state text)
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select *
      from symphony.complete_outbox_attempt(
             p_outbox_id, p_lease_token, p_worker_id, p_state::text, p_rail_reference, p_rail_code, p_error_code,
             p_error_message, p_latency_ms, p_retry_delay_seconds, p_money_moved, p_unsettled, p_adapter_digest,
             p_rail_digest, p_request_digest, p_reply_digest, p_witness, p_facts)
  $$;

comment on function symphony.complete_outbox_attempt(uuid, uuid, text, symphony.outbox_attempt_state, text, text, text, text, int, double precision, text, boolean, bytea, bytea, bytea, bytea, text, jsonb) is
  'The same for callers that have the state as a value of its type.';

create function symphony.lock_payment(p_outbox_id uuid) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
begin
  -- After the lock the next statement must see what the holder before us did.
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'this needs a transaction in read committed, not %', current_setting('transaction_isolation')
      using errcode = '0A000';
  end if;
  perform pg_advisory_xact_lock(hashtextextended(p_outbox_id::text, 7004));
end
$$;

comment on function symphony.lock_payment(uuid) is
  'Keeps what is said of a payment''s money in one order: a late answer, a person''s finding, a reissue, a cancellation. Whoever comes second sees what the first one wrote.';

create function symphony.record_late_answer(
  p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_state text, p_rail_reference text, p_rail_code text,
  p_error_code text, p_error_message text, p_latency_ms int, p_money_moved text default 'unknown',
  p_adapter_digest bytea default null, p_of_key boolean default false)
  returns boolean
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_lease_arguments(1, p_worker_id, 1);
  if p_state is null or p_state not in ('DISPATCHED', 'FAILED', 'RETRYABLE') then
    raise exception '% is no state that a holder may give', coalesce(p_state, 'null') using errcode = 'P7003';
  end if;
  if p_lease_token is null or p_money_moved is null or p_money_moved not in ('yes', 'no', 'unknown')
     or octet_length(p_adapter_digest) <> 32 then
    raise exception 'a late answer needs its lease token, money_moved (yes, no or unknown) and, if any, a digest of 32 bytes'
      using errcode = '22023';
  end if;
  perform symphony.lock_payment(p_outbox_id);
  if symphony.payment_state(p_outbox_id) is null then
    raise exception 'payment % is not known', p_outbox_id using errcode = 'P0002';
  end if;
  insert into symphony.payment_outbox_late_answers
         (outbox_id, lease_token, worker_id, state, money_moved, rail_reference, rail_code, error_code, error_message,
          latency_ms, adapter_digest, of_key, recorded_at)
  values (p_outbox_id, p_lease_token, p_worker_id, p_state, p_money_moved, left(p_rail_reference, 256),
          left(p_rail_code, 256), left(p_error_code, 256), left(p_error_message, 2000), p_latency_ms, p_adapter_digest,
          p_of_key,
          -- After every finding that did not know of it, wherever the clock went since.
          greatest(symphony.clock(), (select max(r.resolved_at) + interval '1 microsecond'
                                        from symphony.payment_outbox_resolutions r
                                       where r.outbox_id = p_outbox_id)))
  on conflict (outbox_id, lease_token) do nothing;
  return found;
end
$$;

comment on function symphony.record_late_answer(uuid, uuid, text, text, text, text, text, text, int, text, bytea, boolean) is
  'Keeps what a fenced-out holder heard, or (p_of_key) what the rail said unasked and signed; true the first time, false when this token has spoken already. Changes no state.';

reset role;
