-- The same outbox with batch functions that go through their rows one by one: the same tables, the same durable writes,
-- the same checks and answers, as one writes them when the single call came first.
create schema bench;

create function bench.enqueue_payment_outbox_batch(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[], p_payloads jsonb[])
  returns table (ordinal int, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
                 replayed boolean, refusal text, refusal_detail text)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
#variable_conflict use_column
declare
  v_digest uuid;
  v_hash bytea;
  v_known record;
  v_problem text;
begin
  if not exists (select 1 from symphony.payment_outbox_partitions where detached_at is null
                  having min(from_at) <= symphony.clock() and max(until_at) > symphony.clock() + interval '1 minute') then
    raise exception 'no partition' using errcode = 'P7007';
  end if;

  for i in 1..cardinality(p_instruction_ids) loop
    ordinal := i;
    outbox_id := null;
    sequence_id := null;
    created_at := null;
    state := null;
    replayed := false;
    refusal := null;
    refusal_detail := null;

    v_problem := symphony.enqueue_problem(p_instruction_ids[i], p_participant_ids[i], p_idempotency_keys[i],
                                          p_rail_types[i], p_payloads[i], p_payloads[i]::text);
    if v_problem is not null then
      refusal := '22023';
      refusal_detail := v_problem;
      return next;
      continue;
    end if;

    v_digest := symphony.key_digest(p_instruction_ids[i], p_idempotency_keys[i]);
    v_hash := symphony.request_hash(p_participant_ids[i], p_rail_types[i], p_payloads[i]::text);
    select r.outbox_id, r.sequence_id, r.request_hash into v_known
      from symphony.payment_outbox_records r
     where r.key_digest = v_digest;
    if found then
      if v_known.request_hash = v_hash then
        outbox_id := v_known.outbox_id;
        sequence_id := v_known.sequence_id;
        created_at := symphony.uuidv7_time(outbox_id);
        state := symphony.payment_state(outbox_id);
        replayed := true;
      else
        refusal := 'P7004';
      end if;
      return next;
      continue;
    end if;

    perform 1
       from symphony.participants s
      where s.participant_id = p_participant_ids[i] and s.state = 'SUSPENDED';
    if found then
      refusal := 'P7006';
      return next;
      continue;
    end if;

    outbox_id := symphony.uuidv7();
    sequence_id := symphony.bump_participant_outbox_seq(p_participant_ids[i]);
    created_at := symphony.uuidv7_time(outbox_id);
    insert into symphony.payment_outbox_records (key_digest, outbox_id, sequence_id, request_hash, participant_id)
    values (v_digest, outbox_id, sequence_id, v_hash, p_participant_ids[i]);
    insert into symphony.payment_outbox_pending
           (outbox_id, sequence_id, next_attempt_at, created_at, instruction_id, participant_id, idempotency_key,
            rail_type, payload)
    values (outbox_id, sequence_id, created_at, created_at, p_instruction_ids[i], p_participant_ids[i],
            p_idempotency_keys[i], p_rail_types[i], p_payloads[i]);
    state := 'PENDING';
    return next;
  end loop;
  perform symphony.notify_hosts();
end
$$;

create function bench.claim_outbox_batch(
  p_batch_size int, p_worker_id text, p_lease_seconds double precision, p_rails text[])
  returns table (outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint, idempotency_key text,
                 rail_type text, payload jsonb, attempt_count int, next_attempt_at timestamptz, created_at timestamptz,
                 claimed_at timestamptz, lease_token uuid, lease_expires_at timestamptz, unsettled boolean,
                 handed_over_at timestamptz, past jsonb)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  set enable_seqscan = off
  set enable_sort = off
  set enable_bitmapscan = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
  v_until timestamptz := v_now + make_interval(secs => p_lease_seconds);
  v_token uuid := gen_random_uuid();
  v_rail text;
  v_row record;
  v_ids uuid[];
begin
  perform symphony.check_lease_arguments(p_batch_size, p_worker_id, p_lease_seconds);
  foreach v_rail in array p_rails loop
    v_ids := '{}';
    perform symphony.requeue_expired(100, p_worker_id, interval '0', v_rail, 20);
    for v_row in
      select p.*
        from symphony.payment_outbox_pending p
       where p.rail_type = v_rail and not p.unsettled and not p.parked and p.next_attempt_at <= v_now
         and p.lease_token is null
       order by p.next_attempt_at, p.created_at
       limit p_batch_size
         for update skip locked
    loop
      perform 1
         from symphony.participants s
        where s.participant_id = v_row.participant_id
          and (s.state = 'SUSPENDED'
               or s.strict_order and exists (select 1 from symphony.payment_outbox_pending e
                                              where e.participant_id = v_row.participant_id
                                                and e.sequence_id < v_row.sequence_id));
      if found then
        update symphony.payment_outbox_pending p set parked = true where p.outbox_id = v_row.outbox_id;
        continue;
      end if;
      update symphony.payment_outbox_pending p
         set claimed_by = p_worker_id, lease_token = v_token, lease_expires_at = v_until, claimed_at = v_now
       where p.outbox_id = v_row.outbox_id;
      v_ids := v_ids || v_row.outbox_id;
      outbox_id := v_row.outbox_id;
      instruction_id := v_row.instruction_id;
      participant_id := v_row.participant_id;
      sequence_id := v_row.sequence_id;
      idempotency_key := v_row.idempotency_key;
      rail_type := v_row.rail_type;
      payload := v_row.payload;
      attempt_count := v_row.attempt_count;
      next_attempt_at := v_row.next_attempt_at;
      created_at := v_row.created_at;
      claimed_at := v_now;
      lease_token := v_token;
      lease_expires_at := v_until;
      unsettled := v_row.unsettled;
      handed_over_at := v_row.handed_over_at;
      past := case when v_row.attempt_count > 0 or v_row.unsettled then symphony.known_past(v_row.outbox_id) end;
      return next;
    end loop;
    if cardinality(v_ids) > 0 then
      insert into symphony.payment_outbox_claims (lease_expires_at, lease_token, rail_type, claimed_by, outbox_ids)
      values (v_until, v_token, v_rail, p_worker_id, v_ids);
    end if;
  end loop;
end
$$;

create function bench.complete_outbox_batch(
  p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_states text[], p_rail_references text[],
  p_latencies_ms int[])
  returns table (ordinal int, outbox_id uuid, attempt_no int, state text, repeated boolean, refusal text,
                 refusal_detail text)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
  v_row record;
  v_no int;
  v_terminal boolean;
begin
  perform symphony.check_lease_arguments(cardinality(p_outbox_ids), p_worker_id, 1);
  for i in 1..cardinality(p_outbox_ids) loop
    ordinal := i;
    outbox_id := p_outbox_ids[i];
    attempt_no := null;
    state := null;
    repeated := false;
    refusal := null;
    refusal_detail := null;
    if p_states[i] is null or p_states[i] not in ('DISPATCHED', 'FAILED', 'RETRYABLE') then
      refusal := 'P7003';
      return next;
      continue;
    end if;

    select coalesce(max(a.attempt_no), 0) + 1 into v_no
      from symphony.payment_outbox_attempts a
     where a.outbox_id = p_outbox_ids[i];
    v_terminal := p_states[i] <> 'RETRYABLE' or v_no >= 20;
    if v_terminal then
      delete from symphony.payment_outbox_pending p
       where p.outbox_id = p_outbox_ids[i] and p.lease_token = p_lease_tokens[i] and p.claimed_by = p_worker_id
         and p.lease_expires_at > v_now
      returning p.* into v_row;
    else
      update symphony.payment_outbox_pending p
         set claimed_by = null, lease_token = null, lease_expires_at = null,
             attempt_count = greatest(p.attempt_count, v_no), next_attempt_at = v_now + interval '1 second'
       where p.outbox_id = p_outbox_ids[i] and p.lease_token = p_lease_tokens[i] and p.claimed_by = p_worker_id
         and p.lease_expires_at > v_now
      returning p.* into v_row;
    end if;
    if v_row.outbox_id is null then
      select a.attempt_no, a.state::text, true into attempt_no, state, repeated
        from symphony.payment_outbox_attempts a
       where a.outbox_id = p_outbox_ids[i] and a.lease_token = p_lease_tokens[i] and a.worker_id = p_worker_id;
      if not found then
        refusal := 'P7002';
      end if;
      return next;
      continue;
    end if;

    state := case when v_terminal and p_states[i] = 'RETRYABLE' then 'FAILED' else p_states[i] end;
    attempt_no := v_no;
    insert into symphony.payment_outbox_attempts
           (outbox_id, lease_token, sequence_id, claimed_at, completed_at, created_at, attempt_no, latency_ms, state,
            instruction_id, participant_id, idempotency_key, rail_type, worker_id, money_moved, rail_reference, payload)
    values (p_outbox_ids[i], p_lease_tokens[i], v_row.sequence_id, v_row.claimed_at, v_now, v_now, v_no,
            p_latencies_ms[i], state::symphony.outbox_attempt_state, v_row.instruction_id, v_row.participant_id,
            v_row.idempotency_key, v_row.rail_type, p_worker_id,
            case p_states[i] when 'DISPATCHED' then 'yes' when 'FAILED' then 'unknown' else 'no' end,
            p_rail_references[i], case when v_terminal then v_row.payload end);
    if v_terminal then
      perform symphony.promote_strict_heads(array[v_row.participant_id::text]);
    end if;
    return next;
  end loop;
end
$$;
