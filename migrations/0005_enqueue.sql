-- Accepting payments: numbers without gaps, one payment per key for ever.
set local role symphony_control;

create function symphony.bump_participant_outbox_seq(p_participant_id text) returns bigint
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_sequence_id bigint;
begin
  if p_participant_id is null or length(p_participant_id) not between 1 and 256 then
    raise exception 'participant_id must have 1 to 256 characters' using errcode = '22023';
  end if;
  insert into symphony.participant_outbox_sequences as s (participant_id, next_sequence_id)
  values (p_participant_id, 2)
  on conflict (participant_id) do update
    set next_sequence_id = s.next_sequence_id + 1
  returning next_sequence_id - 1 into v_sequence_id;
  return v_sequence_id;
end
$$;

comment on function symphony.bump_participant_outbox_seq(text) is
  'The next number of a stream, which begins at 1. Not granted to anyone: a number taken without a payment would be a gap.';

create function symphony.queue_fronts(p_rail_types text[], p_now timestamptz) returns jsonb
  language sql stable
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select jsonb_object_agg(r.rail_type, (extract(epoch from coalesce(
             f.front,
             least(p_now, (select p.next_attempt_at
                             from symphony.payment_outbox_pending p
                            where p.rail_type = r.rail_type and not p.unsettled and not p.parked
                            order by p.next_attempt_at, p.created_at
                            limit 1)))) * 1000000)::bigint)
      from (select distinct t.rail_type from unnest(p_rail_types) as t(rail_type) where t.rail_type is not null) r
      left join symphony.rail_fronts f on f.rail_type = r.rail_type
  $$;

comment on function symphony.queue_fronts(text[], timestamptz) is
  'How far the claims of these rails have come, in microseconds since 1970; where there were none, the head of the queue or the time.';

create function symphony.identifier_problem(p_name text, p_value text) returns text
  language sql immutable parallel safe
  as $$
    select case
      when p_value ~ '^[\x09-\x0d\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]|[\x09-\x0d\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]$'
        then p_name || ' must not begin or end with white space'
      when p_value ~ '[\x01-\x1f\x7f-\x9f]'
        then p_name || ' must not contain control characters'
    end
  $$;

comment on function symphony.identifier_problem(text, text) is
  'What is wrong with a name that must be the same at every door, or null. Nothing is trimmed here: two names that differ only in white space would be one for a person and two for us. White space and control characters are those of Unicode.';

create function symphony.enqueue_problem(
  p_instruction_id text, p_participant_id text, p_idempotency_key text, p_rail_type text, p_payload jsonb, p_body text)
  returns text
  language sql immutable parallel safe
  as $$
    select case
      when p_instruction_id is null or length(p_instruction_id) not between 1 and 256
        then 'instruction_id must have 1 to 256 characters'
      when p_participant_id is null or length(p_participant_id) not between 1 and 256
        then 'participant_id must have 1 to 256 characters'
      when p_idempotency_key is null or length(p_idempotency_key) not between 1 and 256
        then 'idempotency_key must have 1 to 256 characters'
      when p_rail_type is null or length(p_rail_type) not between 1 and 64
        then 'rail_type must have 1 to 64 characters'
      -- Hardly any identifier has a blank in it: one look at all four spares two at each.
      when p_instruction_id || p_participant_id || p_idempotency_key || p_rail_type
             ~ '[\x01-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]'
           and num_nonnulls(symphony.identifier_problem('instruction_id', p_instruction_id),
                            symphony.identifier_problem('participant_id', p_participant_id),
                            symphony.identifier_problem('idempotency_key', p_idempotency_key),
                            symphony.identifier_problem('rail_type', p_rail_type)) > 0
        then coalesce(symphony.identifier_problem('instruction_id', p_instruction_id),
                      symphony.identifier_problem('participant_id', p_participant_id),
                      symphony.identifier_problem('idempotency_key', p_idempotency_key),
                      symphony.identifier_problem('rail_type', p_rail_type))
      when p_payload is null or jsonb_typeof(p_payload) <> 'object'
        then 'payload must be a JSON object'
      when octet_length(p_body) > 65536
        then 'payload must be at most 65536 bytes, not ' || octet_length(p_body)::text
    end
  $$;

comment on function symphony.enqueue_problem(text, text, text, text, jsonb, text) is
  'What is wrong with a request, or null. Money is not looked at here: that belongs to the host and the ingress.';

create function symphony.payment_state(p_outbox_id uuid) returns text
  language sql stable
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select coalesce(
      (select 'PENDING' from symphony.payment_outbox_pending where outbox_id = p_outbox_id),
      (select state::text from symphony.payment_outbox_attempts
        where outbox_id = p_outbox_id order by attempt_no desc limit 1),
      (select state from symphony.payment_outbox_verdicts where outbox_id = p_outbox_id))
  $$;

comment on function symphony.payment_state(uuid) is 'PENDING, or the state of the last attempt, also after the history has gone.';

create function symphony.ring() returns void
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  -- A transaction that has notified cannot be prepared.
  if current_setting('symphony.will_prepare', true) = 'on' then
    return;
  end if;
  if exists (select 1 from symphony.relay_hosts
              where asleep and seen_at > symphony.clock() - interval '1 minute') then
    perform pg_notify('outbox_pending', 'new_work');
  end if;
end
$$;

comment on function symphony.ring() is
  'The doorbell, rung only while somebody sleeps: a NOTIFY takes a lock of the whole database at commit and halves the rate of many writers. Silent where the caller said "set local symphony.will_prepare = on": its payment is found by the next poll.';

create function symphony.enqueue_payment_outbox_batch(
  p_instruction_ids text[], p_participant_ids text[], p_idempotency_keys text[], p_rail_types text[], p_payloads jsonb[])
  returns table (ordinal int, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
                 replayed boolean, refusal text, refusal_detail text)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set jit = off
  set enable_mergejoin = off
  as $$
#variable_conflict use_column
declare
  v_rows int := coalesce(cardinality(p_instruction_ids), 0);
  v_now timestamptz := symphony.clock();
  v_problems text[];
  v_digests uuid[];
  v_hashes bytea[];
  v_fresh boolean[];
  v_suspended boolean[];
  v_fresh_count int;
  v_ids uuid[];
  v_numbers bigint[];
  v_places bigint[];
  v_times timestamptz[];
  v_fronts jsonb := symphony.queue_fronts(p_rail_types, v_now);
  v_constraint text;
begin
  if v_rows > 10000 then
    raise exception 'a batch has at most 10000 rows, not %', v_rows using errcode = '22023';
  end if;
  if num_nulls(p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads) > 0
     or cardinality(p_participant_ids) <> v_rows or cardinality(p_idempotency_keys) <> v_rows
     or cardinality(p_rail_types) <> v_rows or cardinality(p_payloads) <> v_rows then
    raise exception 'the arrays of a batch must be given and of one length' using errcode = '22023';
  end if;
  -- Ids are made a moment after this look: a minute of margin keeps a verdict from ever lacking its partition.
  if not exists (select 1 from symphony.payment_outbox_partitions where detached_at is null
                  having min(from_at) <= v_now and max(until_at) > v_now + interval '1 minute') then
    raise exception 'no partition of the history would take a payment accepted at %', v_now
      using errcode = 'P7007', hint = 'run railhost retention, which creates partitions ahead';
  end if;

  -- The text of a payload is made once, for its length and its hash: OFFSET keeps the two from making it each.
  select array_agg(symphony.enqueue_problem(t.i, t.p, t.k, t.r, t.b, t.body) order by t.ord),
         array_agg(symphony.key_digest(t.i, t.k) order by t.ord),
         array_agg(symphony.request_hash(t.p, t.r, t.body) order by t.ord)
    into v_problems, v_digests, v_hashes
    from (select u.*, u.b::text as body
            from unnest(p_instruction_ids, p_participant_ids, p_idempotency_keys, p_rail_types, p_payloads)
                 with ordinality as u(i, p, k, r, b, ord)
          offset 0) t;

  -- Another session may record one of our keys between our look and our insert. Then the numbers taken for this round
  -- go back with the rolled-back block, and the next round sees the other's record.
  for v_round in 1..100 loop
    -- Nearly every batch is all new: four questions to the whole of it spare four to each row.
    if v_round = 1
       and cardinality(array_remove(v_problems, null)) = 0
       and (select count(distinct t.digest) from unnest(v_digests) as t(digest)) = v_rows
       and not exists (select 1 from symphony.payment_outbox_records r where r.key_digest = any (v_digests))
       and not exists (select 1 from symphony.participants s
                        where s.participant_id = any (p_participant_ids) and s.state = 'SUSPENDED') then
      v_fresh := array_fill(true, array[v_rows]);
      v_suspended := array_fill(false, array[v_rows]);
    else
      -- A row that is refused for itself does not use up its key: the next row of the batch with that key may have it.
      select array_agg(t.is_new and t.may_enter order by t.ord),
             array_agg(t.is_new and not t.may_enter and t.problem is null order by t.ord)
        into v_fresh, v_suspended
        from (select w.*,
                     count(*) filter (where w.may_enter) over (partition by w.digest order by w.ord)
                       = case when w.may_enter then 1 else 0 end
                     and not exists (select 1 from symphony.payment_outbox_records r where r.key_digest = w.digest) as is_new
                from (select u.problem, u.digest, u.ord,
                             u.problem is null
                             and not exists (select 1 from symphony.participants s
                                              where s.participant_id = u.participant and s.state = 'SUSPENDED') as may_enter
                        from unnest(v_problems, v_digests, p_participant_ids)
                             with ordinality as u(problem, digest, participant, ord)) w) t;
    end if;
    v_fresh_count := coalesce(cardinality(array_positions(v_fresh, true)), 0);
    v_ids := null;
    v_numbers := null;
    exit when v_fresh_count = 0;

    begin
      with fresh as materialized (
        select t.*, row_number() over (partition by t.participant order by t.ord desc) as from_end,
               row_number() over (partition by t.participant, t.rail order by t.ord desc) as from_end_of_rail
          from unnest(v_fresh, p_participant_ids, p_rail_types) with ordinality as t(fresh, participant, rail, ord)
         where t.fresh
      ),
      -- One bump per participant, in one order for all sessions, so that no two batches wait for each other in a ring.
      bumped as (
        insert into symphony.participant_outbox_sequences as s (participant_id, next_sequence_id, places)
        select f.participant, sum(f.wanted) + 1, jsonb_object_agg(f.rail, (v_fronts ->> f.rail)::bigint + f.wanted)
          from (select r.participant, r.rail, count(*) as wanted from fresh r group by r.participant, r.rail) f
         group by f.participant
         order by f.participant
        on conflict (participant_id) do update
          set next_sequence_id = s.next_sequence_id + excluded.next_sequence_id - 1,
              -- Counted from the front of each queue, they move behind the participant's own. Rails are free text here:
              -- whoever invents thousands loses its place among them, and nothing grows.
              places = case when pg_column_size(s.places) < 4000 then s.places else '{}' end || (
                select jsonb_object_agg(g.key, g.value::bigint
                         + greatest(0, coalesce((s.places ->> g.key)::bigint - (v_fronts ->> g.key)::bigint, 0)))
                  from jsonb_each_text(excluded.places) g)
        returning s.participant_id, s.next_sequence_id, s.places
      ),
      numbered as (
        select f.ord, b.next_sequence_id - f.from_end as number,
               (b.places ->> f.rail)::bigint - f.from_end_of_rail + 1 as place
          from fresh f
          join bumped b on b.participant_id = f.participant
      )
      select array_agg(n.number order by a.ord), array_agg(n.place order by a.ord),
             array_agg(case when n.ord is not null then symphony.uuidv7() end order by a.ord)
        into v_numbers, v_places, v_ids
        from generate_series(1, v_rows) as a(ord)
        left join numbered n on n.ord = a.ord;

      insert into symphony.payment_outbox_records (key_digest, outbox_id, sequence_id, request_hash, participant_id)
      select t.digest, t.id, t.number, t.hash, t.participant
        from unnest(v_fresh, v_digests, v_ids, v_numbers, v_hashes, p_participant_ids)
             as t(fresh, digest, id, number, hash, participant)
       where t.fresh
       order by t.digest;
      v_times := array(select symphony.uuidv7_time(t.id) from unnest(v_ids) with ordinality as t(id, ord) order by t.ord);

      insert into symphony.payment_outbox_pending
             (outbox_id, sequence_id, next_attempt_at, created_at, instruction_id, participant_id, idempotency_key,
              rail_type, payload)
      select t.id, t.number, least(t.at, timestamptz 'epoch' + t.place * interval '1 microsecond'), t.at,
             t.i, t.p, t.k, t.r, t.b
        from unnest(v_fresh, v_ids, v_times, v_numbers, v_places, p_instruction_ids, p_participant_ids,
                    p_idempotency_keys, p_rail_types, p_payloads)
             as t(fresh, id, at, number, place, i, p, k, r, b)
       where t.fresh;
      exit;
    exception
      when unique_violation then
        get stacked diagnostics v_constraint = constraint_name;
        if v_constraint <> 'payment_outbox_records_pkey' then
          raise;
        end if;
        -- A transaction with one snapshot for all its statements would look in vain for the other's record.
        if v_round = 100 or current_setting('transaction_isolation') <> 'read committed' then
          raise exception 'another session is recording the same keys' using errcode = '40001';
        end if;
    end;
  end loop;

  if v_fresh_count > 0 then
    perform symphony.ring();
  end if;

  if v_fresh_count = v_rows then
    return query
      select t.ord::int, t.id, t.number, t.at, 'PENDING', false, null::text, null::text
        from unnest(v_ids, v_numbers, v_times) with ordinality as t(id, number, at, ord)
       order by t.ord;
    return;
  end if;

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
      from unnest(v_problems, v_digests, v_hashes, v_ids, v_numbers, p_participant_ids, p_instruction_ids,
                  p_idempotency_keys, v_suspended)
           with ordinality as t(problem, digest, hash, id, number, participant, instruction, key, suspended, ord)
      left join symphony.payment_outbox_records r
        on r.key_digest = t.digest and t.problem is null and t.id is null and not t.suspended
     order by t.ord;
end
$$;

comment on function symphony.enqueue_payment_outbox_batch(text[], text[], text[], text[], jsonb[]) is
  'Accepts up to 10,000 payments, answers in input order. A refused row says why by SQLSTATE and has no id; its neighbours go in. A replay takes no number.';

create function symphony.enqueue_payment_outbox(
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

reset role;
