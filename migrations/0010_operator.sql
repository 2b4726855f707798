-- What a person may do. Every act needs a name and a reason and leaves a row in operator_acts.
set local role symphony_control;

create function symphony.note_act(p_act text, p_target text, p_by text, p_why text, p_detail jsonb default '{}')
  returns void
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  if p_by is null or length(p_by) not between 1 and 256 or p_why is null or length(p_why) not between 1 and 2000 then
    raise exception 'say who (1 to 256 characters) and why (1 to 2000 characters)' using errcode = '22023';
  end if;
  insert into symphony.operator_acts (act, target, by_whom, why, detail)
  values (p_act, p_target, p_by, p_why, p_detail);
end
$$;

create function symphony.check_identifier(p_name text, p_value text, p_chars_max int) returns void
  language plpgsql immutable
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_problem text := symphony.identifier_problem(p_name, p_value);
begin
  if p_value is null or length(p_value) not between 1 and p_chars_max then
    raise exception '% must have 1 to % characters', p_name, p_chars_max using errcode = '22023';
  end if;
  if v_problem is not null then
    raise exception '%', v_problem using errcode = '22023';
  end if;
end
$$;

comment on function symphony.check_identifier(text, text, int) is
  'The rule of enqueue, for whoever names a rail or a participant: a switch under a name that no payment can have would switch nothing.';

create function symphony.set_rail_state(p_rail_type text, p_state text, p_by text, p_why text) returns void
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_identifier('rail_type', p_rail_type, 64);
  insert into symphony.rails as r (rail_type, state, changed_at)
  values (p_rail_type, p_state, symphony.clock())
  on conflict (rail_type) do update
    set state = excluded.state, changed_at = excluded.changed_at;
  perform symphony.note_act(case p_state when 'PAUSED' then 'pause_rail' else 'resume_rail' end, p_rail_type, p_by, p_why);
  perform symphony.ring();
end
$$;

create function symphony.pause_rail(p_rail_type text, p_by text, p_why text) returns void
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$ select symphony.set_rail_state(p_rail_type, 'PAUSED', p_by, p_why) $$;

comment on function symphony.pause_rail(text, text, text) is
  'No new lease for disbursement on this rail. What may have been handed over is still asked about.';

create function symphony.resume_rail(p_rail_type text, p_by text, p_why text) returns void
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$ select symphony.set_rail_state(p_rail_type, 'ENABLED', p_by, p_why) $$;

comment on function symphony.resume_rail(text, text, text) is 'Ends a pause. Time behind it used up no attempt.';

create function symphony.configure_rail(
  p_rail_type text, p_deduplicates boolean, p_hand_over_marks boolean, p_sla_seconds int, p_rate_per_second int,
  p_burst int, p_by text, p_why text, p_key_forms text default null) returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_known text := (select r.key_forms from symphony.rails r where r.rail_type = p_rail_type);
begin
  perform symphony.check_identifier('rail_type', p_rail_type, 64);
  if v_known <> p_key_forms
     and exists (select 1
                   from symphony.payment_outbox_pending p
                  where p.rail_type = p_rail_type
                    and (p.unsettled or p.attempt_count > 0 or p.lease_token is not null
                         or exists (select 1 from symphony.payment_outbox_holds h
                                     where h.outbox_id = p.outbox_id and h.calls > 0))) then
    raise exception 'payments of rail % are known as %, not as %, and some that may be known are open: settle them first; where only the address of the same provider changed, say provider in the rail''s file',
      p_rail_type, v_known, p_key_forms
      using errcode = '55006';
  end if;
  -- A host keeps the file that it has: it would go on paying where the others do not ask.
  if v_known <> p_key_forms
     and exists (select 1
                   from symphony.relay_hosts h
                  where p_rail_type = any (h.rails) and h.seen_at > symphony.clock() - interval '1 minute') then
    raise exception 'payments of rail % are known as %, not as %, and a host served it within the last minute: stop its hosts first',
      p_rail_type, v_known, p_key_forms
      using errcode = '55006';
  end if;
  if p_deduplicates is null or p_hand_over_marks is null or not (p_deduplicates or p_hand_over_marks)
     or p_sla_seconds <= 0 or p_rate_per_second <= 0 or p_burst <= 0
     or (p_rate_per_second is null) <> (p_burst is null) then
    raise exception 'rail %: it must deduplicate or keep hand-over marks, rate and burst come together, and limits are positive', p_rail_type
      using errcode = '22023';
  end if;
  insert into symphony.rails as r
         (rail_type, deduplicates, hand_over_marks, sla_seconds, rate_per_second, burst, key_forms, changed_at)
  values (p_rail_type, p_deduplicates, p_hand_over_marks, p_sla_seconds, p_rate_per_second, p_burst, p_key_forms, symphony.clock())
  on conflict (rail_type) do update
    set deduplicates = excluded.deduplicates, hand_over_marks = excluded.hand_over_marks,
        sla_seconds = excluded.sla_seconds, rate_per_second = excluded.rate_per_second, burst = excluded.burst,
        key_forms = coalesce(excluded.key_forms, r.key_forms), changed_at = excluded.changed_at
  where (r.deduplicates, r.hand_over_marks, r.sla_seconds, r.rate_per_second, r.burst, r.key_forms)
        is distinct from
        (excluded.deduplicates, excluded.hand_over_marks, excluded.sla_seconds, excluded.rate_per_second, excluded.burst,
         coalesce(excluded.key_forms, r.key_forms));
  if found then
    perform symphony.note_act('configure_rail', p_rail_type, p_by, p_why, jsonb_build_object(
      'deduplicates', p_deduplicates, 'hand_over_marks', p_hand_over_marks, 'sla_seconds', p_sla_seconds,
      'rate_per_second', p_rate_per_second, 'burst', p_burst, 'key_forms', p_key_forms));
  end if;
end
$$;

comment on function symphony.configure_rail(text, boolean, boolean, int, int, int, text, text, text) is
  'What the database must know of a rail, from its configuration. Writes nothing where nothing changes.';

create function symphony.revoke_adapter(p_digest bytea, p_by text, p_why text) returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  if p_digest is null or octet_length(p_digest) <> 32 then
    raise exception 'a digest must have 32 bytes' using errcode = '22023';
  end if;
  perform pg_advisory_xact_lock(hashtext('symphony.revoke_adapter'));
  if not exists (select 1 from symphony.revoked_adapters where digest = p_digest) then
    perform symphony.note_act('revoke_adapter', encode(p_digest, 'hex'), p_by, p_why);
    insert into symphony.revoked_adapters (digest, by_whom, why) values (p_digest, p_by, p_why);
    perform symphony.ring();
  end if;
end
$$;

comment on function symphony.revoke_adapter(bytea, text, text) is
  'No host runs this component any more, neither to pay nor to ask. For good; again is no error and no second act.';

create function symphony.set_participant(
  p_participant_id text, p_state text, p_strict_order boolean, p_act text, p_by text, p_why text, p_unseen boolean)
  returns void
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_identifier('participant_id', p_participant_id, 256);
  -- A name that is misspelt must not look like one that was stopped.
  if p_unseen is not true
     and not exists (select 1 from symphony.participant_outbox_sequences where participant_id = p_participant_id)
     and not exists (select 1 from symphony.participants where participant_id = p_participant_id) then
    raise exception 'participant % has never had a payment', p_participant_id using errcode = 'P0002';
  end if;
  insert into symphony.participants as s (participant_id, state, strict_order, changed_at)
  values (p_participant_id, coalesce(p_state, 'ACTIVE'), coalesce(p_strict_order, false), symphony.clock())
  on conflict (participant_id) do update
    set state = coalesce(p_state, s.state), strict_order = coalesce(p_strict_order, s.strict_order),
        changed_at = excluded.changed_at;
  perform symphony.note_act(p_act, p_participant_id, p_by, p_why);
end
$$;

create function symphony.suspend_participant(
  p_participant_id text, p_by text, p_why text, p_unseen boolean default false) returns void
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$ select symphony.set_participant(p_participant_id, 'SUSPENDED', null, 'suspend_participant', p_by, p_why, p_unseen) $$;

comment on function symphony.suspend_participant(text, text, text, boolean) is
  'Refuses new payments of a participant and leases none of its settled ones, from the next claim on. Run reconcile_parking to move a long queue out of the way at once. A participant that nobody has seen yet is taken for a slip (P0002) unless p_unseen.';

create function symphony.reinstate_participant(p_participant_id text, p_by text, p_why text) returns void
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$ select symphony.set_participant(p_participant_id, 'ACTIVE', null, 'reinstate_participant', p_by, p_why, false) $$;

comment on function symphony.reinstate_participant(text, text, text) is
  'Ends a suspension. Run reconcile_parking until it answers 0 to make the parked payments due again.';

create function symphony.set_strict_order(
  p_participant_id text, p_strict boolean, p_by text, p_why text, p_unseen boolean default false) returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  if p_strict is null then
    raise exception 'strict must be true or false' using errcode = '22023';
  end if;
  perform symphony.set_participant(p_participant_id, null, p_strict,
                                   case when p_strict then 'order_strictly' else 'order_loosely' end, p_by, p_why, p_unseen);
end
$$;

comment on function symphony.set_strict_order(text, boolean, text, text, boolean) is
  'From the next claim on, a later payment of this participant waits for the verdict of the earlier one. Run reconcile_parking after a change. A participant that nobody has seen yet is taken for a slip (P0002) unless p_unseen.';

create function symphony.reconcile_parking(p_limit int default 10000) returns int
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  set enable_seqscan = off
  set jit = off
  as $$
declare
  v_now timestamptz := symphony.clock();
  v_ids uuid[];
  v_freed int := 0;
  v_parked int := 0;
  v_everywhere boolean;
  v_streams text[];
begin
  perform symphony.check_lease_arguments(p_limit, 'reconcile', 1);

  -- Parked without a reason: every row of a participant that is active and unordered, the head of one that is ordered.
  v_ids := array(
    with recursive parked_participants(participant_id) as (
      (select p.participant_id
         from symphony.payment_outbox_pending p
        where p.parked
        order by p.participant_id
        limit 1)
      union all
      select (select p.participant_id
                from symphony.payment_outbox_pending p
               where p.parked and p.participant_id > pp.participant_id
               order by p.participant_id
               limit 1)
        from parked_participants pp
       where pp.participant_id is not null
    )
    select f.outbox_id
      from parked_participants pp
      left join symphony.participants s on s.participant_id = pp.participant_id
     cross join lateral (
           select p.outbox_id, p.sequence_id
             from symphony.payment_outbox_pending p
            where p.parked and p.participant_id = pp.participant_id
            order by p.sequence_id
            limit case when s.strict_order then 1 else p_limit end) f
     where coalesce(s.state, 'ACTIVE') = 'ACTIVE'
       and (not coalesce(s.strict_order, false)
            or not exists (select 1 from symphony.payment_outbox_pending e
                            where e.participant_id = pp.participant_id and e.sequence_id < f.sequence_id))
     limit p_limit);
  if cardinality(v_ids) > 0 then
    v_ids := array(
      select p.outbox_id
        from symphony.payment_outbox_pending p
       where p.outbox_id = any (v_ids) and p.parked
         for update skip locked);
    -- They come back at the front of their queue, a microsecond apart, so that others still find places between them.
    update symphony.payment_outbox_pending p
       set parked = false,
           next_attempt_at = greatest(
             p.next_attempt_at, least(v_now, coalesce(f.front, v_now) + n.place * interval '1 microsecond'))
      from (select q.outbox_id, q.rail_type,
                   row_number() over (partition by q.participant_id, q.rail_type order by q.sequence_id) as place
              from symphony.payment_outbox_pending q
             where q.outbox_id = any (v_ids)) n
      left join symphony.rail_fronts f on f.rail_type = n.rail_type
     where p.outbox_id = any (array[n.outbox_id]);
    get diagnostics v_freed = row_count;
  end if;

  -- Strict streams are parked under their lock only, as a claim does it: a verdict that this look does not see yet then
  -- waits for us and promotes the row. A stream whose lock is taken is left for the next call.
  v_streams := array(
    select s.participant_id
      from symphony.participants s
     where s.strict_order and s.state = 'ACTIVE'
       and (select count(*) from (select 1 from symphony.payment_outbox_pending p
                                   where p.participant_id = s.participant_id and not p.parked limit 2) two) = 2
       and pg_try_advisory_xact_lock(symphony.stream_lock(s.participant_id)));

  -- Waiting where it should be parked. Streams are parked from their end, so that the first parked row says how far it
  -- has come and a long one is not read again with every call; only when nothing is left before it, all is looked at.
  foreach v_everywhere in array array[false, true] loop
    exit when v_freed >= p_limit;
    v_ids := array(
      select h.outbox_id
        from symphony.participants s
       cross join lateral (
             select (select e.sequence_id
                       from symphony.payment_outbox_pending e
                      where e.participant_id = s.participant_id
                      order by e.sequence_id
                      limit 1) as head,
                    case when not v_everywhere then
                      (select e.sequence_id
                         from symphony.payment_outbox_pending e
                        where e.participant_id = s.participant_id and e.parked
                        order by e.sequence_id
                        limit 1) end as first_parked) edge
       cross join lateral (
             select p.outbox_id
               from symphony.payment_outbox_pending p
              where p.participant_id = s.participant_id
                and p.sequence_id < coalesce(edge.first_parked, 9223372036854775807)
                and not p.parked and not p.unsettled and p.lease_token is null
                and (s.state = 'SUSPENDED' or p.sequence_id > edge.head)
              order by p.sequence_id desc
              limit p_limit - v_freed) h
       where s.state = 'SUSPENDED' or s.participant_id = any (v_streams)
       limit p_limit - v_freed);
    continue when cardinality(v_ids) = 0;
    v_ids := array(
      select p.outbox_id
        from symphony.payment_outbox_pending p
       where p.outbox_id = any (v_ids) and not p.parked and not p.unsettled and p.lease_token is null
         for update skip locked);
    update symphony.payment_outbox_pending p
       set parked = true
     where p.outbox_id = any (v_ids);
    get diagnostics v_parked = row_count;
    exit when v_parked > 0;
  end loop;

  if v_freed > 0 then
    perform symphony.ring();
  end if;
  return v_freed + v_parked;
end
$$;

comment on function symphony.reconcile_parking(int) is
  'Brings parked rows in line with the switches, a bounded number per call; 0 means that all is in line. Rows that claims meet in the meantime are parked by them.';

create function symphony.reissue_payment(
  p_predecessor_id uuid, p_instruction_id text, p_idempotency_key text, p_by text, p_why text,
  p_payload jsonb default null)
  returns table (outbox_id uuid, sequence_id bigint)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
#variable_conflict use_column
declare
  v_verdict record;
  v_resolved text;
  v_new record;
begin
  perform symphony.lock_payment(p_predecessor_id);
  select a.state, a.money_moved, a.participant_id, a.rail_type, a.payload,
         a.error_code = 'CANCELLED' and a.worker_id = 'operator' as cancelled
    into v_verdict
    from symphony.payment_outbox_attempts a
   where a.outbox_id = p_predecessor_id and a.state in ('DISPATCHED', 'FAILED');
  if not found then
    raise exception 'payment % has no verdict in the history', p_predecessor_id using errcode = 'P7008';
  end if;
  if v_verdict.cancelled then
    raise exception 'payment % cannot be reissued: it was cancelled; enqueue a new one', p_predecessor_id
      using errcode = 'P7008';
  end if;
  select r.money_moved into v_resolved
    from symphony.payment_outbox_resolutions r
   where r.outbox_id = p_predecessor_id
   order by r.finding_no desc
   limit 1;
  if v_verdict.state <> 'FAILED' or coalesce(v_resolved, v_verdict.money_moved) <> 'no' then
    raise exception 'payment % cannot be reissued: it is %, money moved: %',
                    p_predecessor_id, v_verdict.state, coalesce(v_resolved, v_verdict.money_moved)
      using errcode = 'P7008';
  end if;
  if exists (select 1 from symphony.payment_outbox_late_answers l
              where l.outbox_id = p_predecessor_id and (l.money_moved = 'yes' or l.state = 'DISPATCHED')) then
    raise exception 'payment % cannot be reissued: a late answer says that the money moved', p_predecessor_id
      using errcode = 'P7008';
  end if;

  select * into v_new
    from symphony.enqueue_payment_outbox_batch(
           array[p_instruction_id], array[v_verdict.participant_id::text], array[p_idempotency_key],
           array[v_verdict.rail_type::text], array[coalesce(p_payload, v_verdict.payload)]);
  if v_new.refusal is not null then
    raise exception '%', v_new.refusal_detail using errcode = v_new.refusal;
  end if;
  if v_new.replayed then
    -- The key was there before: fine if it is the successor of an earlier call, otherwise it is somebody else's payment.
    if not exists (select 1 from symphony.payment_outbox_reissues r
                    where r.predecessor_id = p_predecessor_id and r.successor_id = v_new.outbox_id) then
      raise exception 'key (%, %) belongs to another payment', p_instruction_id, p_idempotency_key using errcode = 'P7008';
    end if;
    return query select v_new.outbox_id, v_new.sequence_id;
    return;
  end if;

  perform symphony.note_act('reissue_payment', p_predecessor_id::text, p_by, p_why,
                            jsonb_build_object('successor_id', v_new.outbox_id));
  insert into symphony.payment_outbox_reissues (predecessor_id, successor_id, by_whom, why, reissued_at)
  values (p_predecessor_id, v_new.outbox_id, p_by, p_why, symphony.clock())
  on conflict do nothing;
  if not found then
    raise exception 'payment % was reissued already', p_predecessor_id using errcode = 'P7008';
  end if;
  return query select v_new.outbox_id, v_new.sequence_id;
end
$$;

comment on function symphony.reissue_payment(uuid, text, text, text, text, jsonb) is
  'A new payment in place of one that failed without moving money: new instruction, new key, the same participant and rail. The same call again answers with the same successor.';

create function symphony.resolve_payment(
  p_outbox_id uuid, p_money_moved text, p_by text, p_why text, p_evidence text) returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_before record;
begin
  if p_money_moved is null or p_money_moved not in ('yes', 'no') then
    raise exception 'money_moved must be yes or no' using errcode = '22023';
  end if;
  if p_evidence is null or length(p_evidence) not between 1 and 10000 then
    raise exception 'evidence must have 1 to 10000 characters' using errcode = '22023';
  end if;
  perform symphony.lock_payment(p_outbox_id);
  select r.finding_no, r.money_moved, r.resolved_at into v_before
    from symphony.payment_outbox_resolutions r
   where r.outbox_id = p_outbox_id
   order by r.finding_no desc
   limit 1;
  -- A finding stands, until the rail is heard to have paid what it says was not paid.
  if not exists (select 1 from symphony.payment_outbox_attempts a
                  where a.outbox_id = p_outbox_id and a.state = 'FAILED'
                    and (a.money_moved = 'unknown' and v_before.finding_no is null
                         or coalesce(v_before.money_moved, 'no') = 'no'
                            and exists (select 1 from symphony.payment_outbox_late_answers l
                                         where l.outbox_id = a.outbox_id
                                           and (l.money_moved = 'yes' or l.state = 'DISPATCHED')
                                           and l.recorded_at > coalesce(v_before.resolved_at, '-infinity')))) then
    raise exception 'payment % has no open outcome to resolve', p_outbox_id using errcode = 'P7008';
  end if;
  perform symphony.note_act('resolve_payment', p_outbox_id::text, p_by, p_why,
                            jsonb_build_object('money_moved', p_money_moved));
  insert into symphony.payment_outbox_resolutions (outbox_id, finding_no, money_moved, by_whom, why, evidence, resolved_at)
  values (p_outbox_id, coalesce(v_before.finding_no, 0) + 1, p_money_moved, p_by, p_why, p_evidence,
          -- After every answer that it knows of, wherever the clock went since.
          greatest(symphony.clock(), (select max(l.recorded_at) from symphony.payment_outbox_late_answers l
                                       where l.outbox_id = p_outbox_id)))
  on conflict (outbox_id, finding_no) do nothing;
  if not found then
    raise exception 'payment % is resolved already', p_outbox_id using errcode = 'P7008';
  end if;
end
$$;

comment on function symphony.resolve_payment(uuid, text, text, text, text) is
  'A person''s finding, with evidence, on a payment whose outcome the rail left open. Once, unless a late success contradicts it.';

create function symphony.cancel_payment(p_outbox_id uuid, p_by text, p_why text) returns int
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_row symphony.payment_outbox_pending;
  v_now timestamptz := symphony.clock();
  v_no int;
  v_obstacle text;
begin
  perform symphony.lock_payment(p_outbox_id);
  -- A claim that is taking this row ends first, and then the row is leased; one that comes later passes it by.
  select * into v_row from symphony.payment_outbox_pending p where p.outbox_id = p_outbox_id for update;
  if not found then
    v_obstacle := symphony.payment_state(p_outbox_id);
    if v_obstacle is null then
      raise exception 'payment % is not known', p_outbox_id using errcode = 'P0002';
    end if;
    raise exception 'payment % cannot be cancelled: it has a verdict, %', p_outbox_id, v_obstacle using errcode = 'P7008';
  end if;
  v_obstacle := case
    when v_row.lease_token is not null
      then format('%s has it in hand now; try again when the lease is over', v_row.claimed_by)
    when v_row.unsettled or v_row.handed_over_at is not null
         or exists (select 1 from symphony.payment_outbox_attempts a
                     where a.outbox_id = p_outbox_id and a.money_moved <> 'no')
         or exists (select 1 from symphony.payment_outbox_late_answers l
                     where l.outbox_id = p_outbox_id and (l.money_moved <> 'no' or l.state = 'DISPATCHED'))
      then 'it may have left; wait for its verdict' end;
  if v_obstacle is not null then
    raise exception 'payment % cannot be cancelled: %', p_outbox_id, v_obstacle using errcode = 'P7008';
  end if;

  delete from symphony.payment_outbox_pending p where p.outbox_id = p_outbox_id;
  insert into symphony.payment_outbox_attempts
         (outbox_id, lease_token, sequence_id, claimed_at, completed_at, created_at, attempt_no, state, by_holder,
          instruction_id, participant_id, idempotency_key, rail_type, worker_id, money_moved, error_code, error_message,
          payload)
  select p_outbox_id, gen_random_uuid(), v_row.sequence_id, v_now, v_now, v_now, coalesce(max(a.attempt_no), 0) + 1,
         'FAILED', false, v_row.instruction_id, v_row.participant_id, v_row.idempotency_key, v_row.rail_type, 'operator',
         'no', 'CANCELLED', left(format('cancelled by %s: %s', p_by, p_why), 2000), v_row.payload
    from symphony.payment_outbox_attempts a
   where a.outbox_id = p_outbox_id
  returning attempt_no into v_no;
  perform symphony.note_act('cancel_payment', p_outbox_id::text, p_by, p_why, jsonb_build_object('attempt_no', v_no));
  perform symphony.promote_strict_heads(array[v_row.participant_id::text]);
  return v_no;
end
$$;

comment on function symphony.cancel_payment(uuid, text, text) is
  'Takes back a payment of which nothing can have left: its verdict is FAILED, CANCELLED, no money moved, and its stream goes on. Also where its rail is paused or served by nobody, and where it is parked. Answers with the number of the attempt.';

reset role;
