-- The claim: who may act on a payment, and until when.
set local role symphony_control;

-- VOLATILE: a takeover writes its row of the history in the statement that asks, and the past must contain it.
create function symphony.known_past(p_outbox_id uuid) returns jsonb
  language sql volatile
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select jsonb_build_object(
      'attempts', coalesce((
        select jsonb_agg(jsonb_build_object(
                 'attempt_no', a.attempt_no, 'lease_token', a.lease_token, 'state', a.state,
                 'claimed_at', a.claimed_at, 'completed_at', a.completed_at, 'error_code', a.error_code,
                 'rail_code', a.rail_code, 'rail_reference', a.rail_reference,
                 'adapter_digest', encode(a.adapter_digest, 'hex'))
               order by a.attempt_no)
          from symphony.payment_outbox_attempts a
         where a.outbox_id = p_outbox_id), '[]'),
      'late_answers', coalesce((
        select jsonb_agg(jsonb_build_object(
                 'lease_token', l.lease_token, 'state', l.state, 'money_moved', l.money_moved,
                 'rail_reference', l.rail_reference, 'rail_code', l.rail_code, 'error_code', l.error_code,
                 'recorded_at', l.recorded_at, 'of_key', l.of_key)
               order by l.recorded_at)
          from symphony.payment_outbox_late_answers l
         where l.outbox_id = p_outbox_id), '[]'),
      'captured', coalesce((
        select jsonb_object_agg(c.name, c.value order by c.captured_at)
          from symphony.payment_outbox_captures c
         where c.outbox_id = p_outbox_id), '{}'))
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

create function symphony.rail_rooms(
  p_batch_size int, p_now timestamptz, p_rails text[], p_limits int[], p_lease_seconds double precision[],
  p_after timestamptz[], p_default_lease_seconds double precision, p_narrowed text[])
  returns table (rail_type text, enabled boolean, narrowed text, most int, lease_seconds double precision, after timestamptz,
                 rate_per_second int, burst int)
  language sql stable
  as $$
    select p_rails[u.at], coalesce(r.state, 'ENABLED') = 'ENABLED' and p_narrowed[u.at] is distinct from 'ASKED',
           p_narrowed[u.at],
           -- What the rail's bucket cannot pay for must not take the place of other rails.
           least(coalesce(p_limits[u.at], p_batch_size), p_batch_size,
                 floor(coalesce(symphony.refilled(g.tokens, g.refilled_at, p_now, r.rate_per_second, r.burst),
                                r.burst))::int),
           coalesce(p_lease_seconds[u.at], p_default_lease_seconds), coalesce(p_after[u.at], '-infinity'),
           r.rate_per_second, r.burst
      from generate_subscripts(p_rails, 1) as u(at)
      left join symphony.rails r on r.rail_type = p_rails[u.at]
      left join symphony.rail_rate_grants g on g.rail_type = r.rail_type
  $$;

comment on function symphony.rail_rooms(int, timestamptz, text[], int[], double precision[], timestamptz[], double precision, text[]) is
  'What each rail may take now: whether it is enabled, its limit, and what its bucket can pay for.';

create function symphony.claim_shares(
  p_batch_size int, p_now timestamptz, p_rails text[], p_limits int[], p_lease_seconds double precision[],
  p_after timestamptz[], p_default_lease_seconds double precision, p_takeovers int, p_narrowed text[])
  returns table (rail_type text, enabled boolean, narrowed text, room int, share int, lease_seconds double precision, after timestamptz,
                 all_fit boolean, rate_per_second int, burst int)
  language plpgsql stable
  set search_path = pg_catalog, symphony, pg_temp
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set enable_bitmapscan = off
  set jit = off
  set plan_cache_mode = force_generic_plan
  as $$
#variable_conflict use_column
begin
  if p_rails is null then
    p_rails := array(select symphony.rails_with_work());
  end if;
  return query
    with room as materialized (
      select w.*, sum(w.most) over () <= p_batch_size as all_fit
        from symphony.rail_rooms(p_batch_size, p_now, p_rails, p_limits, p_lease_seconds, p_after, p_default_lease_seconds,
                                 p_narrowed) w
    ),
    -- More room than the batch: the rows that are due first decide how it is divided.
    first_due as materialized (
      select d.rail_type
        from room
       cross join lateral (
             (select p.rail_type, p.next_attempt_at, p.created_at
                from symphony.payment_outbox_pending p
               where room.enabled and room.narrowed is null and p.rail_type = room.rail_type
                 and not p.unsettled and not p.parked
                 and p.next_attempt_at >= room.after and p.next_attempt_at <= p_now
                 and p.lease_token is null
               order by p.next_attempt_at, p.created_at
               limit room.most)
             union all
             (select p.rail_type, p.next_attempt_at, p.created_at
                from symphony.payment_outbox_pending p
               where room.enabled and room.narrowed is not null and p.rail_type = room.rail_type
                 and not p.unsettled and not p.parked and p.attempt_count > 0
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
               limit room.most)
             union all
             -- What may be taken over counts from the end of its lease; a claim of which nothing is held counts for nothing.
             (select p.rail_type, p.lease_expires_at, p.created_at
                from (select c.lease_token, c.outbox_ids
                        from symphony.payment_outbox_claims c
                       where c.rail_type = room.rail_type and c.lease_expires_at <= p_now
                       order by c.lease_expires_at
                       limit 20) c
               cross join lateral unnest(c.outbox_ids) as i(id)
                join symphony.payment_outbox_pending p on p.outbox_id = any (array[i.id]) and p.lease_token = c.lease_token
               where p.lease_expires_at <= p_now
               limit least(room.most, p_takeovers))) d
       where not room.all_fit
       order by d.next_attempt_at, d.created_at
       limit p_batch_size
    )
    select room.rail_type, room.enabled, room.narrowed, room.most,
           case when room.all_fit then room.most
                else least(room.most, (select count(*)::int from first_due f where f.rail_type = room.rail_type)) end,
           room.lease_seconds, room.after, room.all_fit, room.rate_per_second, room.burst
      from room;
end
$$;

comment on function symphony.claim_shares(int, timestamptz, text[], int[], double precision[], timestamptz[], double precision, int, text[]) is
  'How many rows of which rail one claim may take.';

create function symphony.claim_outbox_batch(
  p_batch_size int, p_worker_id text, p_lease_seconds double precision,
  p_rails text[] default null, p_rail_limits int[] default null, p_rail_lease_seconds double precision[] default null,
  p_rail_after timestamptz[] default null, p_takeovers int default 100, p_rail_narrowed text[] default null)
  returns table (outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint, idempotency_key text,
                 rail_type text, payload jsonb, attempt_count int, next_attempt_at timestamptz, created_at timestamptz,
                 claimed_at timestamptz, lease_token uuid, lease_expires_at timestamptz, unsettled boolean,
                 handed_over_at timestamptz, past jsonb, rate_left int, taken_over boolean, holds int)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_sort = off
  set enable_bitmapscan = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
  v_left int := p_batch_size;
  v_limits int[] := p_rail_limits;
  v_limit int;
  v_wanted bigint := 0;
  v_shared boolean := p_rail_limits is null;
  v_takeovers int := p_takeovers;
  v_sound boolean;
  v_rails text[];
  v_some_expired boolean;
  v_some_held boolean;
  v_some_waited boolean;
  v_some_captured boolean;
  v_again boolean;
  v_rail record;
  -- Of one rail.
  v_want int;
  v_taken_of_rail int;
  v_tokens double precision;
  v_refilled_at timestamptz;
  v_freed int;
  v_taken uuid[];
  v_from_taken boolean;
  v_at timestamptz;
  v_tids tid[];
  v_ids uuid[];
  v_participants text[];
  v_front timestamptz;
  v_unsure text[];
  v_held tid[];
  v_token uuid;
  v_leased int;
  v_until timestamptz;
begin
  v_sound := symphony.check_lease_arguments(p_batch_size, p_worker_id, p_lease_seconds);
  if p_takeovers is null or p_takeovers not between 0 and 10000 then
    raise exception 'takeovers must be between 0 and 10000, not %', coalesce(p_takeovers::text, 'null')
      using errcode = '22023';
  end if;
  -- Expressions without a query are evaluated without the executor, and a host asks this many times a second.
  v_sound := case
    when p_rails is null then num_nonnulls(p_rail_limits, p_rail_lease_seconds, p_rail_after, p_rail_narrowed) = 0
    else cardinality(p_rails) <= 1000 and array_position(p_rails, null) is null
         and coalesce(cardinality(p_rail_limits), cardinality(p_rails)) = cardinality(p_rails)
         and coalesce(cardinality(p_rail_lease_seconds), cardinality(p_rails)) = cardinality(p_rails)
         and coalesce(cardinality(p_rail_after), cardinality(p_rails)) = cardinality(p_rails)
         and coalesce(cardinality(p_rail_narrowed), cardinality(p_rails)) = cardinality(p_rails)
         and (p_rail_limits is null or 1 <= all (p_rail_limits) and 10000 >= all (p_rail_limits))
         and (p_rail_lease_seconds is null or 1 <= all (p_rail_lease_seconds) and 3600 >= all (p_rail_lease_seconds))
         and (p_rail_narrowed is null or array_remove(p_rail_narrowed, null) <@ array['ASKED', 'TRIED']) end;
  if v_sound and cardinality(p_rails) > 1 then
    v_sound := (select count(*) = count(distinct r) from unnest(p_rails) as t(r));
  end if;
  if v_sound is not true then
    raise exception 'rails must be distinct and at most 1000, and their limits (1 to 10000), lease seconds (1 to 3600), lower bounds and narrowings (ASKED, TRIED) arrays of the same length'
      using errcode = '22023';
  end if;

  -- Nearly always no lease has run out and no participant is held back, and one look says so for all rails.
  select coalesce((select c.lease_expires_at
                     from symphony.payment_outbox_claims c
                    order by c.lease_expires_at
                    limit 1) <= v_now, false),
         exists (select 1 from symphony.participants s where s.state = 'SUSPENDED' or s.strict_order),
         exists (select 1 from symphony.payment_outbox_holds),
         exists (select 1 from symphony.payment_outbox_captures)
    into v_some_expired, v_some_held, v_some_waited, v_some_captured;
  if not v_some_expired then
    v_takeovers := 0;
  end if;
  if v_limits is not null then
    foreach v_limit in array v_limits loop
      v_wanted := v_wanted + v_limit;
    end loop;
    v_shared := v_wanted > p_batch_size;
  end if;

  -- Without rails nobody sees to it that rows with a past get their turn, and new ones may arrive for ever: up to a quarter
  -- of the batch is theirs before the rest goes by the queue.
  if p_rails is null then
    v_rails := (array(select symphony.rails_with_work()))[1:1000];
    return query
      select *
        from symphony.claim_outbox_batch(
               (p_batch_size + 3) / 4, p_worker_id, p_lease_seconds, v_rails, p_takeovers => 0,
               p_rail_narrowed => array_fill('TRIED'::text, array[cardinality(v_rails)]));
    get diagnostics v_leased = row_count;
    v_left := v_left - v_leased;
  end if;

  -- Where rails share the batch, a row that turned out to be held back may have taken another rail's place: divide what
  -- is left again.
  for v_pass in 1..3 loop
    exit when v_left <= 0;
    v_again := false;
    -- A host asks for no more than it has room for: then each rail gets what it may take, and the queues are not looked at.
    for v_rail in
      select s.*
        from (select r.rail_type, r.enabled, r.narrowed, r.most as room, r.most as share, r.lease_seconds, r.after,
                     true as all_fit, r.rate_per_second, r.burst
                from symphony.rail_rooms(p_batch_size, v_now, p_rails, v_limits, p_rail_lease_seconds, p_rail_after,
                                         p_lease_seconds, p_rail_narrowed) r
               where not v_shared and r.most > 0
              union all
              select c.*
                from symphony.claim_shares(v_left, v_now, p_rails, v_limits, p_rail_lease_seconds, p_rail_after,
                                           p_lease_seconds, v_takeovers, p_rail_narrowed) c
               where v_shared and c.share > 0) s
       order by s.rail_type
    loop
      v_again := not v_rail.all_fit;
      v_want := least(v_left, v_rail.share);
      v_at := v_now;
      if v_rail.rate_per_second is not null then
        -- The rail's bucket stays locked until this claim commits: two hosts never spend the same token.
        insert into symphony.rail_rate_grants (rail_type, tokens, refilled_at)
        values (v_rail.rail_type, v_rail.burst, v_now)
        on conflict (rail_type) do nothing;
        select g.tokens, g.refilled_at
          into v_tokens, v_refilled_at
          from symphony.rail_rate_grants g
         where g.rail_type = v_rail.rail_type
           for update;
        -- Another host may have had it for a while: the time is that of our turn.
        v_at := symphony.clock();
        v_tokens := symphony.refilled(v_tokens, v_refilled_at, v_at, v_rail.rate_per_second, v_rail.burst);
        v_refilled_at := v_at;
        v_want := least(v_want, floor(v_tokens)::int);
      end if;
      continue when v_want <= 0;

      -- Expired leases are freed as repair would do it, due at once, and leased again where nothing forbids it.
      v_taken := null;
      if v_takeovers > 0 then
        select array_agg(z.outbox_id) filter (where z.state = 'ZOMBIE_REQUEUE'), count(*)
          into v_taken, v_freed
          from symphony.requeue_expired(least(v_takeovers, v_want), p_worker_id, interval '0', v_rail.rail_type, 20) z;
        v_takeovers := v_takeovers - v_freed;
      end if;

      v_taken_of_rail := 0;
      v_from_taken := v_taken is not null;
      -- What was taken over comes first. Rows met here that must not be leased are parked, which takes them out of the way for
      -- good: look again.
      for v_round in 1..20 loop
        if v_from_taken then
          select array_agg(t.tid), array_agg(t.outbox_id), array_agg(t.participant_id)
            into v_tids, v_ids, v_participants
            from (select p.ctid as tid, p.outbox_id, p.participant_id
                    from symphony.payment_outbox_pending p
                   where p.outbox_id = any (v_taken) and not p.parked and (p.unsettled or v_rail.enabled)
                   order by p.next_attempt_at, p.created_at, p.sequence_id) t;
          v_front := null;
        else
          -- Rows that were never tried say how far the queue has come.
          select array_agg(due.tid), array_agg(due.outbox_id), array_agg(due.participant_id),
                 max(due.next_attempt_at) filter (where due.is_new)
            into v_tids, v_ids, v_participants, v_front
            from (select *
                    from (select * from (
                            select p.ctid as tid, p.outbox_id, p.participant_id, p.next_attempt_at, p.created_at,
                                   p.sequence_id, p.attempt_count = 0 as is_new
                              from symphony.payment_outbox_pending p
                             where v_rail.enabled and v_rail.narrowed is null and p.rail_type = v_rail.rail_type
                               and not p.unsettled and not p.parked
                               and p.next_attempt_at >= v_rail.after and p.next_attempt_at <= v_at
                               and p.lease_token is null
                             order by p.next_attempt_at, p.created_at
                             limit v_want
                               for update skip locked) ready
                          union all
                          select * from (
                            select p.ctid, p.outbox_id, p.participant_id, p.next_attempt_at, p.created_at, p.sequence_id, false
                              from symphony.payment_outbox_pending p
                             where v_rail.enabled and v_rail.narrowed is not null and p.rail_type = v_rail.rail_type
                               and not p.unsettled and not p.parked and p.attempt_count > 0
                               and p.next_attempt_at >= v_rail.after and p.next_attempt_at <= v_at
                               and p.lease_token is null
                             order by p.next_attempt_at, p.created_at
                             limit v_want
                               for update skip locked) again
                          union all
                          select * from (
                            select p.ctid, p.outbox_id, p.participant_id, p.next_attempt_at, p.created_at, p.sequence_id, false
                              from symphony.payment_outbox_pending p
                             where p.rail_type = v_rail.rail_type and p.unsettled
                               and p.next_attempt_at >= v_rail.after and p.next_attempt_at <= v_at
                               and p.lease_token is null
                             order by p.next_attempt_at, p.created_at
                             limit v_want
                               for update skip locked) asked) either
                   order by either.next_attempt_at, either.created_at, either.sequence_id
                   limit v_want) due;
          exit when v_tids is null;
        end if;

        v_unsure := '{}';
        v_held := '{}';
        if v_some_held
           and exists (select 1
                         from symphony.participants s
                        where s.participant_id = any (v_participants) and (s.state = 'SUSPENDED' or s.strict_order)) then
          -- A head may have been promoted after this claim began, and is not to look as if it had been claimed before.
          v_at := symphony.clock();
          -- Strict streams first: where a verdict is being written just now the lock is taken, and the row waits for the
          -- next claim. Waiting here instead could close a ring, for the verdict may want our row.
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
          select array_agg(k.tid), array_agg(k.outbox_id), max(k.next_attempt_at) filter (where k.is_new)
            into v_tids, v_ids, v_front
            from (select p.ctid as tid, p.outbox_id, p.next_attempt_at, p.attempt_count = 0 and not p.unsettled as is_new
                    from unnest(v_tids) with ordinality as t(tid, at)
                    join symphony.payment_outbox_pending p on p.ctid = t.tid
                   where not p.parked and (p.unsettled or p.participant_id <> all (v_unsure))
                   order by t.at) k;
        end if;

        v_leased := coalesce(cardinality(v_tids), 0);
        if v_leased > 0 then
          v_token := gen_random_uuid();
          v_until := v_at + make_interval(secs => v_rail.lease_seconds);
          -- Rows go out as they are updated: they are wide, and every further step would copy them.
          return query
            update symphony.payment_outbox_pending p
               set claimed_by = p_worker_id, lease_token = v_token, claimed_at = v_at, lease_expires_at = v_until
              from unnest(v_tids) as t(tid)
             where p.ctid = t.tid
            returning p.outbox_id, p.instruction_id, p.participant_id, p.sequence_id, p.idempotency_key, p.rail_type, p.payload,
                      p.attempt_count, p.next_attempt_at, p.created_at, p.claimed_at, p.lease_token, p.lease_expires_at,
                      p.unsettled, p.handed_over_at,
                      case when p.attempt_count > 0 or p.unsettled
                             or v_some_captured
                                and exists (select 1 from symphony.payment_outbox_captures c where c.outbox_id = p.outbox_id)
                           then symphony.known_past(p.outbox_id) end,
                      case when v_rail.rate_per_second is not null
                           then floor(v_tokens - v_taken_of_rail - v_leased)::int end,
                      v_from_taken,
                      case when v_some_waited
                           then coalesce((select h.calls from symphony.payment_outbox_holds h where h.outbox_id = p.outbox_id), 0)
                           else 0 end;
          insert into symphony.payment_outbox_claims
                 (lease_expires_at, lease_token, rail_type, claimed_by, claimed_at, outbox_ids)
          values (v_until, v_token, v_rail.rail_type, p_worker_id, v_at, v_ids);
          -- Where another claim is saying how far the queue has come, ours is not needed.
          if v_front is not null and pg_try_advisory_xact_lock(hashtextextended(v_rail.rail_type, 7003)) then
            insert into symphony.rail_fronts as f (rail_type, front)
            values (v_rail.rail_type, v_front)
            on conflict (rail_type) do update set front = excluded.front where f.front < excluded.front;
          end if;
        end if;
        v_taken_of_rail := v_taken_of_rail + v_leased;
        v_want := v_want - v_leased;
        exit when v_want <= 0 or (not v_from_taken and cardinality(v_held) = 0);
        v_from_taken := false;
      end loop;

      v_left := v_left - v_taken_of_rail;
      if v_limits is not null then
        v_limits[array_position(p_rails, v_rail.rail_type)] := v_rail.room - v_taken_of_rail;
      end if;
      if v_rail.rate_per_second is not null then
        update symphony.rail_rate_grants g
           set tokens = v_tokens - v_taken_of_rail, refilled_at = v_refilled_at
         where g.rail_type = v_rail.rail_type;
      end if;
      exit when v_left <= 0;
    end loop;
    exit when not v_again;
  end loop;
end
$$;

comment on function symphony.claim_outbox_batch(int, text, double precision, text[], int[], double precision[], timestamptz[], int, text[]) is
  'Leases due rows, rail by rail, each rail in the order of next_attempt_at and created_at. Without rails it leases any, and up to a quarter of the batch goes first to rows that were tried or may have left. p_rail_narrowed narrows a rail: ASKED is what may have left already and can only be asked about, TRIED adds what was tried before; both find their rows however long the queue is. p_rail_after lets a host skip what it has seen finished; it must sweep without a bound at least every second. Expired leases are taken over with their row in the history. rate_left is what the rail''s bucket still holds, taken_over says that an expired lease was ended for it, holds how often it met a rail that could not pay.';

reset role;
