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
                 'recorded_at', l.recorded_at)
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

create function symphony.rail_rooms(
  p_batch_size int, p_now timestamptz, p_rails text[], p_limits int[], p_lease_seconds double precision[],
  p_after timestamptz[], p_default_lease_seconds double precision, p_narrowed text[])
  returns table (rail_type text, enabled boolean, narrowed text, most int, lease_seconds double precision, after timestamptz,
                 rate_per_second int, burst int)
  language sql stable
  as $$
    select u.rail_type, coalesce(r.state, 'ENABLED') = 'ENABLED' and u.narrowed is distinct from 'ASKED', u.narrowed,
           -- What the rail's bucket cannot pay for must not take the place of other rails.
           least(coalesce(u.most, p_batch_size), p_batch_size,
                 floor(least(r.burst, coalesce(g.tokens + r.rate_per_second * greatest(
                   0, extract(epoch from p_now - g.refilled_at)::double precision), r.burst)))::int),
           coalesce(u.lease_seconds, p_default_lease_seconds), coalesce(u.after, '-infinity'),
           r.rate_per_second, r.burst
      from unnest(p_rails, p_limits, p_lease_seconds, p_after, p_narrowed)
           as u(rail_type, most, lease_seconds, after, narrowed)
      left join symphony.rails r on r.rail_type = u.rail_type
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
  -- A host asks for no more than it has room for: then each rail gets what it may take, and the queues are not looked at.
  if (select sum(t.n) from unnest(p_limits) as t(n)) <= p_batch_size then
    return query
      select w.rail_type, w.enabled, w.narrowed, w.most, w.most, w.lease_seconds, w.after, true, w.rate_per_second, w.burst
        from symphony.rail_rooms(p_batch_size, p_now, p_rails, p_limits, p_lease_seconds, p_after, p_default_lease_seconds,
                                 p_narrowed) w;
    return;
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

create function symphony.lease_rows(
  p_rail_type text, p_enabled boolean, p_narrowed text, p_want int, p_lease interval, p_after timestamptz, p_now timestamptz,
  p_worker_id text, p_taken uuid[])
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
  v_now timestamptz := p_now;
  v_want int := p_want;
  v_taken uuid[] := p_taken;
  v_tids tid[];
  v_participants text[];
  v_unsure text[];
  v_held tid[];
  v_looked boolean;
  v_token uuid;
  v_leased int;
begin
  -- Rows met here that must not be leased are parked, which takes them out of the way for good: look again.
  for v_round in 1..20 loop
    v_looked := coalesce(cardinality(v_taken), 0) = 0;
    if not v_looked then
      select array_agg(p.ctid), array_agg(p.participant_id) into v_tids, v_participants
        from symphony.payment_outbox_pending p
       where p.outbox_id = any (v_taken) and (p.unsettled or p_enabled);
      v_taken := null;
    else
      select array_agg(due.tid), array_agg(due.participant_id) into v_tids, v_participants
        from (select *
                from (select * from (
                        select p.ctid as tid, p.participant_id, p.next_attempt_at, p.created_at
                          from symphony.payment_outbox_pending p
                         where p_enabled and p_narrowed is null and p.rail_type = p_rail_type
                           and not p.unsettled and not p.parked
                           and p.next_attempt_at >= p_after and p.next_attempt_at <= v_now
                           and p.lease_token is null
                         order by p.next_attempt_at, p.created_at
                         limit v_want
                           for update skip locked) ready
                      union all
                      select * from (
                        select p.ctid, p.participant_id, p.next_attempt_at, p.created_at
                          from symphony.payment_outbox_pending p
                         where p_enabled and p_narrowed is not null and p.rail_type = p_rail_type
                           and not p.unsettled and not p.parked and p.attempt_count > 0
                           and p.next_attempt_at >= p_after and p.next_attempt_at <= v_now
                           and p.lease_token is null
                         order by p.next_attempt_at, p.created_at
                         limit v_want
                           for update skip locked) again
                      union all
                      select * from (
                        select p.ctid, p.participant_id, p.next_attempt_at, p.created_at
                          from symphony.payment_outbox_pending p
                         where p.rail_type = p_rail_type and p.unsettled
                           and p.next_attempt_at >= p_after and p.next_attempt_at <= v_now
                           and p.lease_token is null
                         order by p.next_attempt_at, p.created_at
                         limit v_want
                           for update skip locked) asked) either
               order by either.next_attempt_at, either.created_at
               limit v_want) due;
      exit when v_tids is null;
    end if;

    v_unsure := '{}';
    v_held := '{}';
    if exists (select 1
                 from symphony.participants s
                where s.participant_id = any (v_participants) and (s.state = 'SUSPENDED' or s.strict_order)) then
      -- A head may have been promoted after this claim began, and is not to look as if it had been claimed before.
      v_now := symphony.clock();
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
    end if;

    v_token := gen_random_uuid();
    return query
      with leased as (
        update symphony.payment_outbox_pending p
           set claimed_by = p_worker_id, lease_token = v_token, lease_expires_at = v_now + p_lease, claimed_at = v_now
         where p.ctid = any (v_tids) and not p.parked
           and (p.unsettled or p.participant_id <> all (v_unsure))
        returning p.*
      ),
      noted as (
        insert into symphony.payment_outbox_claims (lease_expires_at, lease_token, rail_type, claimed_by, outbox_ids)
        select v_now + p_lease, v_token, p_rail_type, p_worker_id, array_agg(l.outbox_id)
          from leased l
        having count(*) > 0
      ),
      -- Rows that were never tried say how far the queue has come. Where another claim is saying so, ours is not needed.
      reached as materialized (
        select r.front, pg_try_advisory_xact_lock(hashtextextended(p_rail_type, 7003)) as ours
          from (select max(l.next_attempt_at) as front
                  from leased l
                 where l.attempt_count = 0 and not l.unsettled) r
         where r.front is not null
      ),
      moved as (
        insert into symphony.rail_fronts as f (rail_type, front)
        select p_rail_type, r.front from reached r where r.ours
        on conflict (rail_type) do update set front = excluded.front where f.front < excluded.front
      )
      select * from leased;
    get diagnostics v_leased = row_count;
    v_want := v_want - v_leased;
    exit when v_want <= 0 or (v_looked and cardinality(v_held) = 0);
  end loop;
end
$$;

comment on function symphony.lease_rows(text, boolean, text, int, interval, timestamptz, timestamptz, text, uuid[]) is
  'Leases rows of one rail: what was taken over first, then in the order of next_attempt_at and created_at.';

create function symphony.claim_outbox_batch(
  p_batch_size int, p_worker_id text, p_lease_seconds double precision,
  p_rails text[] default null, p_rail_limits int[] default null, p_rail_lease_seconds double precision[] default null,
  p_rail_after timestamptz[] default null, p_takeovers int default 100, p_rail_narrowed text[] default null)
  returns table (outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint, idempotency_key text,
                 rail_type text, payload jsonb, attempt_count int, next_attempt_at timestamptz, created_at timestamptz,
                 claimed_at timestamptz, lease_token uuid, lease_expires_at timestamptz, unsettled boolean,
                 handed_over_at timestamptz, past jsonb, rate_left int, taken_over boolean)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  set plan_cache_mode = force_generic_plan
  set jit = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
  v_left int := p_batch_size;
  v_rail record;
  v_want int;
  v_takeovers int := p_takeovers;
  v_freed int;
  v_taken uuid[];
  v_tokens double precision;
  v_leased int;
  v_limits int[] := p_rail_limits;
  v_again boolean;
  v_sound boolean;
begin
  perform symphony.check_lease_arguments(p_batch_size, p_worker_id, p_lease_seconds);
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

  -- Nearly always no lease has run out, and one look says so for all rails.
  if not exists (select 1 from symphony.payment_outbox_claims c where c.lease_expires_at <= v_now) then
    v_takeovers := 0;
  end if;

  -- Where rails share the batch, a row that turned out to be held back may have taken another rail's place: divide what
  -- is left again.
  for v_pass in 1..3 loop
    v_again := false;
    for v_rail in
      select s.*
        from symphony.claim_shares(v_left, v_now, p_rails, v_limits, p_rail_lease_seconds, p_rail_after,
                                   p_lease_seconds, v_takeovers, p_rail_narrowed) s
       where s.share > 0
       order by s.rail_type
    loop
      v_again := not v_rail.all_fit;
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

      -- Expired leases are freed as repair would do it, due at once, and leased again where nothing forbids it.
      v_taken := null;
      if v_takeovers > 0 then
        select array_agg(z.outbox_id) filter (where z.state = 'ZOMBIE_REQUEUE'), count(*)
          into v_taken, v_freed
          from symphony.requeue_expired(least(v_takeovers, v_want), p_worker_id, interval '0', v_rail.rail_type, 20) z;
        v_takeovers := v_takeovers - v_freed;
      end if;

      return query
        select l.outbox_id, l.instruction_id, l.participant_id, l.sequence_id, l.idempotency_key, l.rail_type, l.payload,
               l.attempt_count, l.next_attempt_at, l.created_at, l.claimed_at, l.lease_token, l.lease_expires_at,
               l.unsettled, l.handed_over_at,
               case when l.attempt_count > 0 or l.unsettled then symphony.known_past(l.outbox_id) end,
               case when v_rail.rate_per_second is not null then floor(v_tokens - count(*) over ())::int end,
               coalesce(l.outbox_id = any (v_taken), false)
          from symphony.lease_rows(v_rail.rail_type, v_rail.enabled, v_rail.narrowed, v_want,
                                   make_interval(secs => v_rail.lease_seconds), v_rail.after, v_now, p_worker_id,
                                   v_taken) l
         order by l.next_attempt_at, l.created_at, l.sequence_id;
      get diagnostics v_leased = row_count;
      v_left := v_left - v_leased;
      if v_limits is not null then
        v_limits[array_position(p_rails, v_rail.rail_type)] := v_rail.room - v_leased;
      end if;

      if v_rail.rate_per_second is not null then
        update symphony.rail_rate_grants g
           set tokens = v_tokens - v_leased, refilled_at = greatest(v_now, g.refilled_at)
         where g.rail_type = v_rail.rail_type;
      end if;
      exit when v_left <= 0;
    end loop;
    exit when v_left <= 0 or not v_again;
  end loop;
end
$$;

comment on function symphony.claim_outbox_batch(int, text, double precision, text[], int[], double precision[], timestamptz[], int, text[]) is
  'Leases due rows, rail by rail, each rail in the order of next_attempt_at and created_at. Without rails it leases any. p_rail_narrowed narrows a rail: ASKED is what may have left already and can only be asked about, TRIED adds what was tried before; both find their rows however long the queue is. p_rail_after lets a host skip what it has seen finished; it must sweep without a bound at least every second. Expired leases are taken over with their row in the history. rate_left is what the rail''s bucket still holds, taken_over says that an expired lease was ended for it.';

reset role;
