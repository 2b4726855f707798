-- Leases: who may act on a payment, and until when.
set local role symphony_control;

create function symphony.check_lease_arguments(
  p_batch_size int, p_worker_id text, p_lease_seconds double precision) returns void
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
  as $$
begin
  if p_batch_size is null or p_batch_size not between 1 and 10000 then
    raise exception 'batch_size must be between 1 and 10000, not %', coalesce(p_batch_size::text, 'null')
      using errcode = '22023';
  end if;
  if p_worker_id is null or length(p_worker_id) not between 1 and 256 then
    raise exception 'worker_id must have 1 to 256 characters' using errcode = '22023';
  end if;
  if p_lease_seconds is null or not (p_lease_seconds between 1 and 3600) then
    raise exception 'lease_seconds must be between 1 and 3600, not %', coalesce(p_lease_seconds::text, 'null')
      using errcode = '22023';
  end if;
end
$$;

-- The lock of a strictly ordered stream, held by whoever parks or promotes in it until its transaction ends. Only hosts
-- take it, in short transactions; enqueue never does, so that a caller's long transaction cannot hold up a verdict.
create function symphony.stream_lock(p_participant_id text) returns bigint
  language sql immutable parallel safe
  as $$ select hashtextextended(p_participant_id, 7002) $$;

create function symphony.promote_strict_heads(p_participant_ids text[]) returns void
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_strict text[];
begin
  v_strict := array(
    select s.participant_id
      from symphony.participants s
     where s.strict_order and s.state = 'ACTIVE' and s.participant_id = any (p_participant_ids)
     order by s.participant_id);
  if cardinality(v_strict) = 0 then
    return;
  end if;
  -- A claim that still saw the finished row may be parking the next one. After the lock we see what it did, and a claim
  -- that comes later sees what we did.
  perform pg_advisory_xact_lock(symphony.stream_lock(s)) from unnest(v_strict) as t(s);
  update symphony.payment_outbox_pending p
     set parked = false,
         next_attempt_at = case when p.parked then symphony.clock() else p.next_attempt_at end
    from (select h.outbox_id
            from unnest(v_strict) as s(participant_id)
           cross join lateral (
                 select e.outbox_id
                   from symphony.payment_outbox_pending e
                  where e.participant_id = s.participant_id
                  order by e.sequence_id
                  limit 1) h) head
   where p.outbox_id = head.outbox_id and p.parked;
end
$$;

comment on function symphony.promote_strict_heads(text[]) is
  'After a verdict: the next payment of a strictly ordered participant becomes due.';

create function symphony.requeue_expired(
  p_limit int, p_worker_id text, p_delay interval, p_rail_type text, p_claims int)
  returns table (outbox_id uuid, attempt_no int, state text)
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  set enable_seqscan = off
  set jit = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
  v_left int := p_limit;
  v_claim record;
  v_ids uuid[];
  v_found record;
  v_ended text[];
begin
  for v_claim in
    select c.lease_expires_at, c.lease_token, c.outbox_ids
      from symphony.payment_outbox_claims c
     where c.lease_expires_at <= v_now
       and (p_rail_type is null or c.rail_type = p_rail_type)
     order by c.lease_expires_at
     limit p_claims
       for update skip locked
  loop
    select array_agg(l.outbox_id) into v_ids
      from (select p.outbox_id
              from symphony.payment_outbox_pending p
             where p.outbox_id = any (v_claim.outbox_ids)
               and p.lease_token = v_claim.lease_token
               and p.lease_expires_at <= v_now
             order by p.outbox_id
             limit v_left
               for update skip locked) l;

    if v_ids is not null then
      v_ended := null;
      for v_found in
        with past as materialized (
          select a.outbox_id, max(a.attempt_no) as last_no
            from symphony.payment_outbox_attempts a
           where a.outbox_id = any (v_ids)
           group by a.outbox_id
        ),
        expired as materialized (
          select p.*,
                 coalesce(past.last_no, 0) + 1 as no,
                 -- Without a mark on a rail that keeps them nothing left us, and the past is as settled as it was.
                 p.unsettled or p.handed_over_at is not null or not coalesce(r.hand_over_marks, false) as now_unsettled
            from symphony.payment_outbox_pending p
            left join past on past.outbox_id = p.outbox_id
            left join symphony.rails r on r.rail_type = p.rail_type
           where p.outbox_id = any (v_ids)
        ),
        gone as (
          delete from symphony.payment_outbox_pending p
           using expired e
           where p.outbox_id = e.outbox_id and e.no >= 20
        ),
        again as (
          update symphony.payment_outbox_pending p
             set claimed_by = null, lease_token = null, lease_expires_at = null,
                 unsettled = e.now_unsettled,
                 attempt_count = greatest(p.attempt_count, e.no),
                 next_attempt_at = v_now + p_delay
            from expired e
           where p.outbox_id = e.outbox_id and e.no < 20
        )
        insert into symphony.payment_outbox_attempts as a
               (outbox_id, lease_token, sequence_id, claimed_at, completed_at, created_at, attempt_no, latency_ms, state,
                instruction_id, participant_id, idempotency_key, rail_type, worker_id, money_moved, error_code,
                error_message, payload)
        select e.outbox_id, e.lease_token, e.sequence_id, e.claimed_at, v_now, v_now, e.no, null,
               case when e.no >= 20 then 'FAILED' else 'ZOMBIE_REQUEUE' end::symphony.outbox_attempt_state,
               e.instruction_id, e.participant_id, e.idempotency_key, e.rail_type, e.claimed_by,
               case when e.now_unsettled then 'unknown' else 'no' end,
               case when e.no < 20 then 'LEASE_EXPIRED'
                    when e.now_unsettled then 'OUTCOME_UNKNOWN'
                    else 'RETRIES_EXHAUSTED' end,
               format('lease of %s ran out at %s, found by %s', e.claimed_by, e.lease_expires_at, p_worker_id),
               case when e.no >= 20 then e.payload end
          from expired e
        returning a.outbox_id, a.attempt_no, a.state::text as state, a.participant_id
      loop
        outbox_id := v_found.outbox_id;
        attempt_no := v_found.attempt_no;
        state := v_found.state;
        if v_found.state = 'FAILED' then
          v_ended := v_ended || v_found.participant_id::text;
        end if;
        return next;
      end loop;
      if v_ended is not null then
        perform symphony.promote_strict_heads(v_ended);
      end if;
      v_left := v_left - cardinality(v_ids);
    end if;

    -- What is still held under this token was extended, or locked by a completion just now: look again when due.
    select array_agg(p.outbox_id) as ids, min(p.lease_expires_at) as until into v_found
      from symphony.payment_outbox_pending p
     where p.outbox_id = any (v_claim.outbox_ids)
       and p.lease_token = v_claim.lease_token;
    if v_found.ids is null then
      delete from symphony.payment_outbox_claims c
       where c.lease_expires_at = v_claim.lease_expires_at and c.lease_token = v_claim.lease_token;
    else
      update symphony.payment_outbox_claims c
         set outbox_ids = v_found.ids, lease_expires_at = v_found.until
       where c.lease_expires_at = v_claim.lease_expires_at and c.lease_token = v_claim.lease_token;
    end if;
    exit when v_left <= 0;
  end loop;
end
$$;

comment on function symphony.requeue_expired(int, text, interval, text, int) is
  'Ends expired leases, each with its row in the history: ZOMBIE_REQUEUE, or FAILED at the ceiling. Shared by repair and claim.';

create function symphony.repair_expired_leases(p_batch_size int, p_worker_id text)
  returns table (outbox_id uuid, attempt_no int)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_lease_arguments(p_batch_size, p_worker_id, 1);
  return query
    select z.outbox_id, z.attempt_no
      from symphony.requeue_expired(p_batch_size, p_worker_id, interval '1 second', null, 1000) z;
end
$$;

comment on function symphony.repair_expired_leases(int, text) is
  'Frees payments whose holder is gone. Safe to run on every host at once: what another one holds is skipped.';

create function symphony.known_past(p_outbox_id uuid) returns jsonb
  language sql stable
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select jsonb_build_object(
      'attempts', coalesce((
        select jsonb_agg(jsonb_build_object(
                 'attempt_no', a.attempt_no, 'state', a.state, 'claimed_at', a.claimed_at,
                 'completed_at', a.completed_at, 'error_code', a.error_code, 'rail_code', a.rail_code,
                 'rail_reference', a.rail_reference, 'adapter_digest', encode(a.adapter_digest, 'hex'))
               order by a.attempt_no)
          from symphony.payment_outbox_attempts a
         where a.outbox_id = p_outbox_id), '[]'),
      'late_answers', coalesce((
        select jsonb_agg(jsonb_build_object(
                 'state', l.state, 'money_moved', l.money_moved, 'rail_reference', l.rail_reference,
                 'rail_code', l.rail_code, 'error_code', l.error_code, 'recorded_at', l.recorded_at)
               order by l.recorded_at)
          from symphony.payment_outbox_late_answers l
         where l.outbox_id = p_outbox_id), '[]'))
  $$;

comment on function symphony.known_past(uuid) is
  'All that was heard of a payment so far. The right to send again derives from the whole of it, not from the last attempt.';

create function symphony.rails_with_work() returns setof text
  language sql stable
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    with recursive ready(rail_type) as (
      (select p.rail_type
         from symphony.payment_outbox_pending p
        where not p.unsettled and not p.parked
        order by p.rail_type
        limit 1)
      union all
      select (select p.rail_type
                from symphony.payment_outbox_pending p
               where not p.unsettled and not p.parked and p.rail_type > ready.rail_type
               order by p.rail_type
               limit 1)
        from ready
       where ready.rail_type is not null
    ),
    asked(rail_type) as (
      (select p.rail_type
         from symphony.payment_outbox_pending p
        where p.unsettled
        order by p.rail_type
        limit 1)
      union all
      select (select p.rail_type
                from symphony.payment_outbox_pending p
               where p.unsettled and p.rail_type > asked.rail_type
               order by p.rail_type
               limit 1)
        from asked
       where asked.rail_type is not null
    )
    select w.rail_type
      from (select rail_type from ready
            union
            select rail_type from asked
            union
            select rail_type from symphony.payment_outbox_claims where lease_expires_at <= symphony.clock()) w
     where w.rail_type is not null
  $$;

comment on function symphony.rails_with_work() is
  'The rails that have rows to lease: one probe per rail, whatever the length of their queues.';

create function symphony.claim_shares(
  p_batch_size int, p_now timestamptz, p_rails text[], p_limits int[], p_lease_seconds double precision[],
  p_after timestamptz[], p_default_lease_seconds double precision)
  returns table (rail_type text, enabled boolean, share int, lease_seconds double precision, after timestamptz)
  language plpgsql stable
  set search_path = pg_catalog, symphony, pg_temp
  as $$
#variable_conflict use_column
begin
  if p_rails is null then
    p_rails := array(select symphony.rails_with_work());
  end if;
  return query
    with room as materialized (
      select w.rail_type, coalesce(r.state, 'ENABLED') = 'ENABLED' as enabled,
             least(coalesce(w.most, p_batch_size), p_batch_size) as most,
             coalesce(w.lease_seconds, p_default_lease_seconds) as lease_seconds,
             coalesce(w.after, '-infinity') as after,
             sum(coalesce(w.most, p_batch_size)) over () <= p_batch_size as all_fit
        from unnest(p_rails, p_limits, p_lease_seconds, p_after) as w(rail_type, most, lease_seconds, after)
        left join symphony.rails r on r.rail_type = w.rail_type
    ),
    -- More room than the batch: the rows that are due first decide how it is divided.
    first_due as (
      select d.rail_type
        from room
       cross join lateral (
             (select p.rail_type, p.next_attempt_at, p.created_at
                from symphony.payment_outbox_pending p
               where room.enabled and p.rail_type = room.rail_type and not p.unsettled and not p.parked
                 and p.next_attempt_at >= room.after and p.next_attempt_at <= p_now
                 and p.lease_token is null
               order by p.next_attempt_at, p.created_at
               limit room.most)
             union all
             (select p.rail_type, p.next_attempt_at, p.created_at
                from symphony.payment_outbox_pending p
               where p.rail_type = room.rail_type and p.unsettled
                 and p.next_attempt_at >= room.after and p.next_attempt_at <= p_now
                 and p.lease_token is null
               order by p.next_attempt_at, p.created_at
               limit room.most)) d
       where not room.all_fit
       order by d.next_attempt_at, d.created_at
       limit p_batch_size
    )
    select room.rail_type, room.enabled,
           case when room.all_fit or exists (select 1 from symphony.payment_outbox_claims c
                                              where c.rail_type = room.rail_type and c.lease_expires_at <= p_now)
                then room.most
                else least(room.most, (select count(*)::int from first_due f where f.rail_type = room.rail_type)) end,
           room.lease_seconds, room.after
      from room;
end
$$;

comment on function symphony.claim_shares(int, timestamptz, text[], int[], double precision[], timestamptz[], double precision) is
  'How many rows of which rail one claim may take.';

create function symphony.lease_rows(
  p_rail_type text, p_enabled boolean, p_want int, p_until timestamptz, p_after timestamptz, p_now timestamptz,
  p_worker_id text, p_takeovers int)
  returns setof symphony.payment_outbox_pending
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  set enable_seqscan = off
  set jit = off
  set enable_sort = off
  set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
  as $$
declare
  v_want int := p_want;
  v_taken uuid[];
  v_tids tid[];
  v_unsure text[];
  v_held tid[];
  v_looked boolean;
  v_token uuid;
  v_leased int;
begin
  if p_takeovers > 0 then
    -- Freed as repair would do it, due at once, and leased again below where nothing forbids it.
    v_taken := array(
      select z.outbox_id
        from symphony.requeue_expired(least(p_takeovers, v_want), p_worker_id, interval '0', p_rail_type, 20) z
       where z.state = 'ZOMBIE_REQUEUE');
  end if;

  -- Rows met here that must not be leased are parked, which takes them out of the way for good: look again.
  for v_round in 1..20 loop
    v_looked := coalesce(cardinality(v_taken), 0) = 0;
    if not v_looked then
      v_tids := array(
        select p.ctid
          from symphony.payment_outbox_pending p
         where p.outbox_id = any (v_taken) and (p.unsettled or p_enabled));
      v_taken := null;
    else
      v_tids := array(
        select due.tid
          from (select * from (
                  select p.ctid as tid, p.next_attempt_at, p.created_at
                    from symphony.payment_outbox_pending p
                   where p_enabled and p.rail_type = p_rail_type and not p.unsettled and not p.parked
                     and p.next_attempt_at >= p_after and p.next_attempt_at <= p_now
                     and p.lease_token is null
                   order by p.next_attempt_at, p.created_at
                   limit v_want
                     for update skip locked) ready
                union all
                select * from (
                  select p.ctid, p.next_attempt_at, p.created_at
                    from symphony.payment_outbox_pending p
                   where p.rail_type = p_rail_type and p.unsettled
                     and p.next_attempt_at >= p_after and p.next_attempt_at <= p_now
                     and p.lease_token is null
                   order by p.next_attempt_at, p.created_at
                   limit v_want
                     for update skip locked) asked) due
         order by due.next_attempt_at, due.created_at
         limit v_want);
      exit when cardinality(v_tids) = 0;
    end if;

    -- Strict streams first: where a verdict is being written just now the lock is taken, and the row waits for the next
    -- claim. Waiting here instead could close a ring, for the verdict may want our row.
    v_unsure := array(
      select s.participant_id
        from symphony.payment_outbox_pending p
        join symphony.participants s on s.participant_id = p.participant_id and s.strict_order
       where p.ctid = any (v_tids)
       group by s.participant_id
      having not pg_try_advisory_xact_lock(symphony.stream_lock(s.participant_id)));
    v_held := array(
      select p.ctid
        from symphony.payment_outbox_pending p
        join symphony.participants s on s.participant_id = p.participant_id
       where p.ctid = any (v_tids)
         and not p.unsettled
         and (s.state = 'SUSPENDED' or s.strict_order)
         and (s.state = 'SUSPENDED'
              or (s.participant_id <> all (v_unsure)
                  and exists (select 1 from symphony.payment_outbox_pending e
                               where e.participant_id = p.participant_id and e.sequence_id < p.sequence_id))));
    if cardinality(v_held) > 0 then
      update symphony.payment_outbox_pending p
         set parked = true
       where p.ctid = any (v_held);
    end if;

    v_token := gen_random_uuid();
    return query
      with leased as (
        update symphony.payment_outbox_pending p
           set claimed_by = p_worker_id, lease_token = v_token, lease_expires_at = p_until, claimed_at = p_now
         where p.ctid = any (v_tids) and not p.parked
           and (p.unsettled or p.participant_id <> all (v_unsure))
        returning p.*
      ),
      noted as (
        insert into symphony.payment_outbox_claims (lease_expires_at, lease_token, rail_type, claimed_by, outbox_ids)
        select p_until, v_token, p_rail_type, p_worker_id, array_agg(l.outbox_id)
          from leased l
        having count(*) > 0
      )
      select * from leased;
    get diagnostics v_leased = row_count;
    v_want := v_want - v_leased;
    exit when v_want <= 0 or (v_looked and cardinality(v_held) = 0);
  end loop;
end
$$;

comment on function symphony.lease_rows(text, boolean, int, timestamptz, timestamptz, timestamptz, text, int) is
  'Leases rows of one rail: what was taken over first, then in the order of next_attempt_at and created_at.';

create function symphony.claim_outbox_batch(
  p_batch_size int, p_worker_id text, p_lease_seconds double precision,
  p_rails text[] default null, p_rail_limits int[] default null, p_rail_lease_seconds double precision[] default null,
  p_rail_after timestamptz[] default null, p_takeovers int default 100)
  returns table (outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint, idempotency_key text,
                 rail_type text, payload jsonb, attempt_count int, next_attempt_at timestamptz, created_at timestamptz,
                 claimed_at timestamptz, lease_token uuid, lease_expires_at timestamptz, unsettled boolean,
                 handed_over_at timestamptz, past jsonb)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
  v_left int := p_batch_size;
  v_rail record;
  v_want int;
  v_tokens double precision;
  v_leased int;
begin
  perform symphony.check_lease_arguments(p_batch_size, p_worker_id, p_lease_seconds);
  if p_takeovers is null or p_takeovers not between 0 and 10000 then
    raise exception 'takeovers must be between 0 and 10000, not %', coalesce(p_takeovers::text, 'null')
      using errcode = '22023';
  end if;
  if p_rails is not null and (
       cardinality(p_rails) > 1000
       or coalesce(cardinality(p_rail_limits), cardinality(p_rails)) <> cardinality(p_rails)
       or coalesce(cardinality(p_rail_lease_seconds), cardinality(p_rails)) <> cardinality(p_rails)
       or coalesce(cardinality(p_rail_after), cardinality(p_rails)) <> cardinality(p_rails)
       or (select count(*) <> count(distinct r) from unnest(p_rails) as t(r))
       or exists (select 1 from unnest(p_rail_limits) as t(n) where t.n is null or t.n not between 1 and 10000)
       or exists (select 1 from unnest(p_rail_lease_seconds) as t(s) where t.s is null or t.s not between 1 and 3600)) then
    raise exception 'rails must be distinct and at most 1000, and their limits (1 to 10000), lease seconds (1 to 3600) and lower bounds arrays of the same length'
      using errcode = '22023';
  end if;

  for v_rail in
    select s.*, r.rate_per_second, r.burst
      from symphony.claim_shares(p_batch_size, v_now, p_rails, p_rail_limits, p_rail_lease_seconds, p_rail_after,
                                 p_lease_seconds) s
      left join symphony.rails r on r.rail_type = s.rail_type
     where s.share > 0
     order by s.rail_type
  loop
    v_want := least(v_left, v_rail.share);
    if v_rail.rate_per_second is not null then
      -- The rail's bucket stays locked until this claim commits: two hosts never spend the same token.
      insert into symphony.rail_rate_grants (rail_type, tokens, refilled_at)
      values (v_rail.rail_type, v_rail.burst, v_now)
      on conflict (rail_type) do nothing;
      select least(v_rail.burst, g.tokens + v_rail.rate_per_second
                                            * greatest(0, extract(epoch from v_now - g.refilled_at)::double precision))
        into v_tokens
        from symphony.rail_rate_grants g
       where g.rail_type = v_rail.rail_type
         for update;
      v_want := least(v_want, floor(v_tokens)::int);
    end if;
    continue when v_want <= 0;

    return query
      select l.outbox_id, l.instruction_id, l.participant_id, l.sequence_id, l.idempotency_key, l.rail_type, l.payload,
             l.attempt_count, l.next_attempt_at, l.created_at, l.claimed_at, l.lease_token, l.lease_expires_at,
             l.unsettled, l.handed_over_at,
             case when l.attempt_count > 0 or l.unsettled then symphony.known_past(l.outbox_id) end
        from symphony.lease_rows(v_rail.rail_type, v_rail.enabled, v_want,
                                 v_now + make_interval(secs => v_rail.lease_seconds), v_rail.after, v_now,
                                 p_worker_id, p_takeovers) l
       order by l.next_attempt_at, l.created_at, l.sequence_id;
    get diagnostics v_leased = row_count;
    v_left := v_left - v_leased;

    if v_rail.rate_per_second is not null then
      update symphony.rail_rate_grants g
         set tokens = v_tokens - v_leased, refilled_at = greatest(v_now, g.refilled_at)
       where g.rail_type = v_rail.rail_type;
    end if;
    exit when v_left <= 0;
  end loop;
end
$$;

comment on function symphony.claim_outbox_batch(int, text, double precision, text[], int[], double precision[], timestamptz[], int) is
  'Leases due rows, rail by rail, each rail in the order of next_attempt_at and created_at. Without rails it leases any. p_rail_after lets a host skip what it has seen finished; it must sweep without a bound at least every second. Expired leases are taken over with their row in the history.';

create function symphony.extend_outbox_leases(
  p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_lease_seconds double precision)
  returns table (outbox_id uuid, lease_expires_at timestamptz)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_lease_arguments(cardinality(p_outbox_ids), p_worker_id, p_lease_seconds);
  return query
    update symphony.payment_outbox_pending p
       set lease_expires_at = greatest(p.lease_expires_at, v_now + make_interval(secs => p_lease_seconds))
      from unnest(p_outbox_ids, p_lease_tokens) as t(id, token)
     where p.outbox_id = t.id and p.lease_token = t.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now
    returning p.outbox_id, p.lease_expires_at;
end
$$;

comment on function symphony.extend_outbox_leases(text, uuid[], uuid[], double precision) is
  'The heartbeat of long calls. A row missing from the answer is no longer ours.';

create function symphony.release_outbox_leases(p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[])
  returns table (outbox_id uuid)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_lease_arguments(cardinality(p_outbox_ids), p_worker_id, 1);
  return query
    update symphony.payment_outbox_pending p
       set claimed_by = null, lease_token = null, lease_expires_at = null
      from unnest(p_outbox_ids, p_lease_tokens) as t(id, token)
     where p.outbox_id = t.id and p.lease_token = t.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now and p.handed_over_at is null
    returning p.outbox_id;
  if found then
    perform symphony.ring();
  end if;
end
$$;

comment on function symphony.release_outbox_leases(text, uuid[], uuid[]) is
  'Hands back rows that were leased and provably never given to a rail: no attempt, no delay. A row with a hand-over mark is kept.';

create function symphony.mark_handed_over(p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[])
  returns table (outbox_id uuid, handed_over_at timestamptz)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_lease_arguments(cardinality(p_outbox_ids), p_worker_id, 1);
  return query
    update symphony.payment_outbox_pending p
       set handed_over_at = coalesce(p.handed_over_at, v_now)
      from unnest(p_outbox_ids, p_lease_tokens) as t(id, token)
     where p.outbox_id = t.id and p.lease_token = t.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now
    returning p.outbox_id, p.handed_over_at;
end
$$;

comment on function symphony.mark_handed_over(text, uuid[], uuid[]) is
  'To be committed before the first byte leaves, on rails that keep marks. A row missing from the answer must not be sent.';

create function symphony.next_due_at(p_rails text[] default null) returns timestamptz
  language plpgsql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_now timestamptz := symphony.clock();
begin
  return (
    select min(d.at)
      from unnest(coalesce(p_rails, array(select symphony.rails_with_work()))) as r(rail_type)
     cross join lateral (
           select least(
             (select min(p.next_attempt_at) from symphony.payment_outbox_pending p
               where p.rail_type = r.rail_type and not p.unsettled and not p.parked and p.next_attempt_at > v_now),
             (select min(p.next_attempt_at) from symphony.payment_outbox_pending p
               where p.rail_type = r.rail_type and p.unsettled and p.next_attempt_at > v_now)) as at) d);
end
$$;

comment on function symphony.next_due_at(text[]) is
  'When the next scheduled row of these rails falls due; null if none is scheduled. What is due already is for the claim to say.';

create function symphony.report_host(p_worker_id text, p_rails text[], p_asleep boolean) returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_lease_arguments(1, p_worker_id, 1);
  if p_rails is null or p_asleep is null or cardinality(p_rails) > 1000 then
    raise exception 'rails (at most 1000) and asleep must be given' using errcode = '22023';
  end if;
  insert into symphony.relay_hosts as h (worker_id, rails, asleep, seen_at)
  values (p_worker_id, p_rails, p_asleep, v_now)
  on conflict (worker_id) do update
    set rails = excluded.rails, asleep = excluded.asleep, seen_at = excluded.seen_at;
  delete from symphony.relay_hosts h where h.seen_at < v_now - interval '1 hour';
end
$$;

comment on function symphony.report_host(text, text[], boolean) is
  'A host says that it lives, what it serves and whether it sleeps; to be repeated every 20 seconds or so.';

create function symphony.retire_host(p_worker_id text) returns void
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$ delete from symphony.relay_hosts where worker_id = p_worker_id $$;

comment on function symphony.retire_host(text) is 'A host leaves in good order.';

reset role;
