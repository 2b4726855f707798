-- Verdicts: the only way out of a lease, fenced by its token.
set local role symphony_control;

create function symphony.complete_outbox_batch(
  p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_states text[],
  p_rail_references text[] default null, p_rail_codes text[] default null, p_error_codes text[] default null,
  p_error_messages text[] default null, p_latencies_ms int[] default null,
  p_retry_delay_seconds double precision[] default null, p_money_moved text[] default null,
  p_unsettled boolean[] default null, p_adapter_digests bytea[] default null)
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
  v_problems text[];
  v_sorted uuid[];
  v_has_past boolean;
  v_hits int[];
  v_numbers int[];
  v_states text[];
  v_ended text[];
begin
  perform symphony.check_lease_arguments(v_rows, p_worker_id, 1);
  if num_nulls(p_lease_tokens, p_states) > 0
     or v_rows <> any (array[cardinality(p_lease_tokens), cardinality(p_states), cardinality(p_rail_references),
                             cardinality(p_rail_codes), cardinality(p_error_codes), cardinality(p_error_messages),
                             cardinality(p_latencies_ms), cardinality(p_retry_delay_seconds),
                             cardinality(p_money_moved), cardinality(p_unsettled), cardinality(p_adapter_digests)]) then
    raise exception 'the arrays of a batch must be of one length' using errcode = '22023';
  end if;

  v_problems := array(
    select case when t.state is null or t.state not in ('DISPATCHED', 'FAILED', 'RETRYABLE')
                  then format('P7003 %s is no state that a holder may give', coalesce(t.state, 'null'))
                when t.money not in ('yes', 'no', 'unknown')
                  then format('22023 money_moved must be yes, no or unknown, not %s', t.money)
                when (t.state = 'DISPATCHED') <> (t.money = 'yes')
                  then format('22023 money_moved = %s contradicts %s', t.money, t.state)
                when t.state = 'RETRYABLE' and t.money = 'unknown' and not t.unsettled
                  then '22023 the past cannot be settled while it is unknown whether money moved'
                when t.delay is not null and t.delay not between 0 and 2678400
                  then format('22023 retry_delay_seconds must be between 0 and 2678400, not %s', t.delay)
                when octet_length(t.digest) <> 32
                  then '22023 adapter_digest must have 32 bytes' end
      from unnest(p_states, p_money_moved, p_unsettled, p_retry_delay_seconds, p_adapter_digests)
           with ordinality as t(state, money, unsettled, delay, digest, ord)
     order by t.ord);

  -- Nearly every payment ends with its first attempt: one look for all of them spares one for each. Between the first and
  -- the last id it need not look into the other months.
  v_sorted := array(select t.id from unnest(p_outbox_ids) as t(id) where t.id is not null order by t.id);
  v_has_past := exists (select 1
                          from symphony.payment_outbox_attempts a
                         where a.outbox_id = any (v_sorted)
                           and a.outbox_id between v_sorted[1] and v_sorted[cardinality(v_sorted)]);

  -- Reading the last number before the row is locked is safe: if the fence below lets us through, nobody else could
  -- have written an attempt since. Sorted by id, so that two batches with common rows lock them in one order.
  with work as materialized (
    select w.*, w.last_no + 1 as no, w.given <> 'RETRYABLE' or w.last_no >= 19 as terminal,
           coalesce(w.error_code in ('OUTCOME_UNKNOWN', 'RAIL_PENDING'), false)
           or coalesce(w.money = 'unknown', false) as sounds_unsettled
      from (select t.*,
                   case when v_has_past then coalesce((select a.attempt_no
                                                         from symphony.payment_outbox_attempts a
                                                        where a.outbox_id = t.id
                                                        order by a.attempt_no desc
                                                        limit 1), 0)
                        else 0 end as last_no,
                   row_number() over (partition by t.id, t.token order by t.ord) as mention
              from unnest(p_outbox_ids, p_lease_tokens, p_states, p_rail_references, p_rail_codes, p_error_codes,
                          p_error_messages, p_latencies_ms, p_retry_delay_seconds, p_money_moved, p_unsettled,
                          p_adapter_digests, v_problems)
                   with ordinality as t(id, token, given, reference, rail_code, error_code, error_message, latency_ms,
                                        delay, money, says_unsettled, digest, problem, ord)
             where t.problem is null) w
     where w.mention = 1 and w.last_no < 20
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
           (outbox_id, lease_token, sequence_id, claimed_at, completed_at, created_at, attempt_no, latency_ms, state,
            instruction_id, participant_id, idempotency_key, rail_type, worker_id, money_moved, rail_reference, rail_code,
            error_code, error_message, adapter_digest, payload)
    select h.id, h.token, h.sequence_id, h.claimed_at, v_now, v_now, h.no, h.latency_ms,
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
           left(h.error_message, 2000), h.digest, h.payload
      from hits h
  )
  select array_agg(h.ord::int), array_agg(h.no), array_agg(case when h.forced then 'FAILED' else h.given end),
         array_agg(h.participant_id) filter (where h.terminal)
    into v_hits, v_numbers, v_states, v_ended
    from hits h;

  if v_ended is not null then
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
              from unnest(p_outbox_ids, p_lease_tokens, v_problems) with ordinality as m(id, token, problem, ord)
              -- The token again: its first completion went through and the answer was lost on the way.
              left join symphony.payment_outbox_attempts b
                on b.outbox_id = m.id and b.lease_token = m.token and b.worker_id = p_worker_id
               and b.by_holder and m.problem is null
             where not (m.ord = any (coalesce(v_hits, '{}')))) a
     order by a.ord;
end
$$;

comment on function symphony.complete_outbox_batch(text, uuid[], uuid[], text[], text[], text[], text[], text[], int[], double precision[], text[], boolean[], bytea[]) is
  'Ends leases with their outcomes, answers in input order. A lost lease is that row''s answer, not an error of the batch.';

create function symphony.complete_outbox_attempt(
  p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_state text, p_rail_reference text, p_rail_code text,
  p_error_code text, p_error_message text, p_latency_ms int, p_retry_delay_seconds double precision default 1,
  p_money_moved text default null, p_unsettled boolean default null, p_adapter_digest bytea default null)
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
           array[p_retry_delay_seconds], array[p_money_moved], array[p_unsettled], array[p_adapter_digest]);
  if v_answer.refusal is not null then
    raise exception '%', v_answer.refusal_detail using errcode = v_answer.refusal;
  end if;
  return query select v_answer.attempt_no, v_answer.state;
end
$$;

comment on function symphony.complete_outbox_attempt(uuid, uuid, text, text, text, text, text, text, int, double precision, text, boolean, bytea) is
  'Ends one lease with its outcome, or raises P7002 when it is no longer held. FAILED says "money did not move" only where the caller says so; RETRYABLE keeps the past unsettled unless told otherwise.';

create function symphony.record_late_answer(
  p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_state text, p_rail_reference text, p_rail_code text,
  p_error_code text, p_error_message text, p_latency_ms int, p_money_moved text default 'unknown',
  p_adapter_digest bytea default null)
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
  if symphony.payment_state(p_outbox_id) is null then
    raise exception 'payment % is not known', p_outbox_id using errcode = 'P0002';
  end if;
  insert into symphony.payment_outbox_late_answers
         (outbox_id, lease_token, worker_id, state, money_moved, rail_reference, rail_code, error_code, error_message,
          latency_ms, adapter_digest, recorded_at)
  values (p_outbox_id, p_lease_token, p_worker_id, p_state, p_money_moved, left(p_rail_reference, 256),
          left(p_rail_code, 256), left(p_error_code, 256), left(p_error_message, 2000), p_latency_ms, p_adapter_digest,
          symphony.clock())
  on conflict (outbox_id, lease_token) do nothing;
  return found;
end
$$;

comment on function symphony.record_late_answer(uuid, uuid, text, text, text, text, text, text, int, text, bytea) is
  'Keeps what a fenced-out holder heard; true the first time, false when this token has spoken already. Changes no state.';

reset role;
