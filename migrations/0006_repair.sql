-- Leases that ran out: ended with a row in the history, by repair and by the claim that takes them over.
set local role symphony_control;

-- The lock of a strictly ordered stream, held by whoever parks or promotes in it until its transaction ends. Hosts
-- take it, in short transactions, and so does who cancels a payment; enqueue never does, so that a caller's long transaction
-- cannot hold up a verdict.
create function symphony.stream_lock(p_participant_id text) returns bigint
  language sql immutable parallel safe
  as $$ select hashtextextended(p_participant_id, 7002) $$;

create function symphony.promote_strict_heads(p_participant_ids text[]) returns void
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  set plan_cache_mode = force_generic_plan
  as $$
declare
  v_now timestamptz := symphony.clock();
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
         -- To the front of its queue, where others find places beside it and hosts that look no further back see it.
         next_attempt_at = greatest(p.next_attempt_at, least(v_now, coalesce(
           (select f.front from symphony.rail_fronts f where f.rail_type = p.rail_type), v_now) + interval '1 microsecond'))
    from (select h.outbox_id
            from unnest(v_strict) as s(participant_id)
           cross join lateral (
                 select e.outbox_id
                   from symphony.payment_outbox_pending e
                  where e.participant_id = s.participant_id
                  order by e.sequence_id
                  limit 1) h) head
   where p.outbox_id = any (array[head.outbox_id]) and p.parked;
  if found then
    perform symphony.ring();
  end if;
end
$$;

comment on function symphony.promote_strict_heads(text[]) is
  'After a verdict: the next payment of a strictly ordered participant becomes due.';

create function symphony.requeue_expired(
  p_limit int, p_worker_id text, p_delay interval, p_rail_type text, p_claims int)
  returns table (outbox_id uuid, attempt_no int, state text, rail_type text)
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
  v_held uuid[];
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
    -- What was ended in time is gone, and that is nearly always all of it: one look at the ids, and no further.
    v_held := array(
      select p.outbox_id
        from symphony.payment_outbox_pending p
       where p.outbox_id = any (v_claim.outbox_ids)
         and p.lease_token = v_claim.lease_token);

    select array_agg(l.outbox_id) into v_ids
      from (select p.outbox_id
              from symphony.payment_outbox_pending p
             where p.outbox_id = any (v_held)
               and p.lease_token = v_claim.lease_token
               and p.lease_expires_at <= v_now
             order by p.outbox_id
             limit v_left
               for update skip locked) l;

    if v_ids is not null then
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
           where p.outbox_id = any (array[e.outbox_id]) and e.no >= 20
        ),
        again as (
          update symphony.payment_outbox_pending p
             set claimed_by = null, lease_token = null, lease_expires_at = null,
                 unsettled = e.now_unsettled,
                 attempt_count = greatest(p.attempt_count, e.no),
                 next_attempt_at = v_now + p_delay
            from expired e
           where p.outbox_id = any (array[e.outbox_id]) and e.no < 20
        )
        insert into symphony.payment_outbox_attempts as a
               (outbox_id, lease_token, sequence_id, claimed_at, completed_at, created_at, attempt_no, latency_ms, state, by_holder,
                instruction_id, participant_id, idempotency_key, rail_type, worker_id, money_moved, error_code,
                error_message, payload)
        select e.outbox_id, e.lease_token, e.sequence_id, e.claimed_at, v_now, v_now, e.no, null,
               case when e.no >= 20 then 'FAILED' else 'ZOMBIE_REQUEUE' end::symphony.outbox_attempt_state, false,
               e.instruction_id, e.participant_id, e.idempotency_key, e.rail_type, e.claimed_by,
               case when e.now_unsettled then 'unknown' else 'no' end,
               case when e.no < 20 then 'LEASE_EXPIRED'
                    when e.now_unsettled then 'OUTCOME_UNKNOWN'
                    else 'RETRIES_EXHAUSTED' end,
               format('lease of %s ran out at %s, found by %s', e.claimed_by, e.lease_expires_at, p_worker_id),
               case when e.no >= 20 then e.payload end
          from expired e
        returning a.outbox_id, a.attempt_no, a.state::text as state, a.rail_type, a.participant_id
      loop
        outbox_id := v_found.outbox_id;
        attempt_no := v_found.attempt_no;
        state := v_found.state;
        rail_type := v_found.rail_type;
        if v_found.state = 'FAILED' then
          v_ended := v_ended || v_found.participant_id::text;
        end if;
        return next;
      end loop;
      v_left := v_left - cardinality(v_ids);
    end if;

    -- What is still held under this token was extended, or locked by a completion just now: look again when due.
    select array_agg(p.outbox_id) as ids, min(p.lease_expires_at) as until into v_found
      from symphony.payment_outbox_pending p
     where p.outbox_id = any (v_held)
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

  -- Once for all, so that the streams are locked in one order.
  if v_ended is not null then
    perform symphony.promote_strict_heads(v_ended);
  end if;
end
$$;

comment on function symphony.requeue_expired(int, text, interval, text, int) is
  'Ends expired leases, each with its row in the history: ZOMBIE_REQUEUE, or FAILED at the ceiling. Shared by repair and claim.';

create function symphony.repair_expired_leases(p_batch_size int, p_worker_id text)
  returns table (outbox_id uuid, attempt_no int, state text, rail_type text)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_lease_arguments(p_batch_size, p_worker_id, 1);
  return query
    select z.outbox_id, z.attempt_no, z.state, z.rail_type
      from symphony.requeue_expired(p_batch_size, p_worker_id, interval '1 second', null, 1000) z;
end
$$;

comment on function symphony.repair_expired_leases(int, text) is
  'Frees payments whose holder is gone. Safe to run on every host at once: what another one holds is skipped.';

create function symphony.sweep_leases(p_worker_id text, p_from_page int, p_pages int) returns int
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  -- A range of pages is read by itself or not at all.
  set enable_seqscan = off
  set enable_indexscan = off
  set enable_bitmapscan = off
  set jit = off
  as $$
declare
  v_now timestamptz := symphony.clock();
  v_pages bigint := pg_relation_size('symphony.payment_outbox_pending') / current_setting('block_size')::int;
  v_from tid;
  v_until tid;
  v_due uuid[];
begin
  perform symphony.check_lease_arguments(p_pages, p_worker_id, 1);
  if p_from_page is null or p_from_page < 0 then
    raise exception 'from_page must be 0 or more, not %', coalesce(p_from_page::text, 'null') using errcode = '22023';
  end if;
  v_from := format('(%s,0)', p_from_page)::tid;
  v_until := format('(%s,0)', p_from_page::bigint + p_pages)::tid;

  -- What claims and repairs will find by themselves.
  v_due := array(
    select i.id
      from symphony.payment_outbox_claims c
     cross join lateral unnest(c.outbox_ids) as i(id)
     where c.lease_expires_at <= v_now);
  insert into symphony.payment_outbox_claims as c
         (lease_expires_at, lease_token, rail_type, claimed_by, claimed_at, outbox_ids)
  select p.lease_expires_at, p.lease_token, p.rail_type, p.claimed_by, min(p.claimed_at), array_agg(p.outbox_id)
    from symphony.payment_outbox_pending p
   where p.ctid >= v_from and p.ctid < v_until
     and p.lease_token is not null and p.lease_expires_at <= v_now
     and p.outbox_id <> all (v_due)
   group by p.lease_expires_at, p.lease_token, p.rail_type, p.claimed_by
  on conflict (lease_expires_at, lease_token) do update
    set outbox_ids = c.outbox_ids || excluded.outbox_ids;
  return case when p_from_page::bigint + p_pages < v_pages then p_from_page + p_pages else 0 end;
end
$$;

comment on function symphony.sweep_leases(text, int, int) is
  'Looks at that many pages of what is pending, from that page on, for leases that ran out and stand in no claim: each gets its row there, so that repair and claim see it. Answers with the next page, 0 at the end. To be called slowly, round and round.';

create function symphony.clock_went_back(p_now timestamptz) returns boolean
  language sql stable
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select exists (select 1 from symphony.clock_marks m where m.seen_at > p_now + interval '2 seconds')
        or exists (select 1 from symphony.rail_fronts f where f.front > p_now + interval '2 seconds')
        or exists (select 1 from symphony.relay_hosts h where h.seen_at > p_now + interval '2 seconds')
        or exists (select 1
                     from (select c.claimed_at
                             from symphony.payment_outbox_claims c
                            order by c.lease_expires_at desc
                            limit 100) c
                    where c.claimed_at > p_now + interval '2 seconds')
        or exists (select 1
                     from (select p.claimed_at, p.created_at, p.next_attempt_at
                             from symphony.payment_outbox_pending p
                            where p.outbox_id >= symphony.uuidv7_floor(p_now + interval '2 seconds')
                            order by p.outbox_id desc
                            limit 100) p
                    where p.claimed_at is null and p.next_attempt_at > p_now + interval '2 seconds'
                      and p.created_at > p_now + interval '2 seconds')
  $$;

comment on function symphony.clock_went_back(timestamptz) is
  'Whether something was written at a time that is still to come: the mark of the last look, how far queues have come, what hosts reported, the leases that run longest, the youngest payments. A few rows, each by its index, however long the queue.';

create function symphony.reconcile_clock(p_limit int) returns int
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  set jit = off
  as $$
declare
  v_now timestamptz := symphony.clock();
  v_soon timestamptz := v_now + interval '2 seconds';
  -- No lease is longer.
  v_longest timestamptz := v_soon + interval '1 hour';
  v_ids uuid[];
  v_waits interval[];
  v_claims timestamptz[];
  v_rows int;
begin
  perform symphony.check_lease_arguments(p_limit, 'reconcile', 1);
  if not symphony.clock_went_back(v_now) then
    update symphony.clock_marks m set seen_at = v_now where m.seen_at < v_now - interval '1 second';
    return 0;
  end if;
  -- It happens once in years: then all of the queue is read, by one host at a time.
  if not pg_try_advisory_xact_lock(hashtext('symphony.reconcile_clock')) then
    return 0;
  end if;

  update symphony.payment_outbox_claims c
     set lease_expires_at = v_now + (c.lease_expires_at - c.claimed_at), claimed_at = v_now
   where c.claimed_at > v_soon;
  update symphony.rail_fronts f set front = v_now where f.front > v_soon;
  update symphony.relay_hosts h set seen_at = v_now where h.seen_at > v_soon;

  -- Each row once. What the last step of a row left behind says how long it was to wait from then: a lease, the end of an
  -- attempt that is still the row's last one, a hold. A payment that was never leased has nothing to wait for.
  select array_agg(w.outbox_id), array_agg(w.wait), array_agg(w.claimed_at)
    into v_ids, v_waits, v_claims
    from (select p.outbox_id,
                 case when p.lease_token is not null and p.claimed_at <= v_soon then p.claimed_at
                      when p.claimed_at is not null then v_now end as claimed_at,
                 case when p.claimed_at is null then interval '0'
                      else greatest(interval '0', p.next_attempt_at - greatest(p.claimed_at, t.completed_at, h.last_held_at))
                 end as wait
            from symphony.payment_outbox_pending p
            left join lateral (select a.completed_at
                                 from symphony.payment_outbox_attempts a
                                where p.lease_token is null and p.next_attempt_at > v_soon and p.attempt_count > 0
                                  and a.outbox_id = p.outbox_id and a.attempt_no = p.attempt_count
                                  and a.claimed_at = p.claimed_at) t on true
            left join symphony.payment_outbox_holds h on h.outbox_id = p.outbox_id and p.lease_token is null
           where p.claimed_at > v_soon
              or p.lease_expires_at > v_longest
              or (p.claimed_at is null and p.created_at > v_soon and p.next_attempt_at > v_soon)
              or (p.lease_token is null and p.next_attempt_at > v_soon
                  and (t.completed_at > v_soon or h.last_held_at > v_soon))
           order by p.outbox_id
           limit p_limit
             for update of p) w;
  v_rows := coalesce(cardinality(v_ids), 0);

  update symphony.payment_outbox_pending p
     set claimed_at = w.claimed_at,
         next_attempt_at = case when p.lease_token is not null and p.claimed_at <= v_soon then p.next_attempt_at
                                else v_now + w.wait end,
         -- From now on at its full length: never shorter than its holder believes.
         lease_expires_at = case when p.lease_token is null then null
                                 when p.claimed_at > v_soon
                                   then least(v_now + (p.lease_expires_at - p.claimed_at), v_longest)
                                 else least(p.lease_expires_at, v_longest) end,
         -- The mark of this lease stays one, that of an earlier lease stays older.
         handed_over_at = case when p.handed_over_at is null then null
                               when p.lease_token is not null and p.handed_over_at >= p.claimed_at
                                 then greatest(least(p.handed_over_at, v_now), w.claimed_at)
                               else least(p.handed_over_at, v_now - interval '1 microsecond') end
    from unnest(v_ids, v_waits, v_claims) as w(id, wait, claimed_at)
   where p.outbox_id = w.id;
  update symphony.payment_outbox_holds h set last_held_at = v_now where h.outbox_id = any (v_ids) and h.last_held_at > v_soon;

  -- As long as rows are left the mark stays ahead, wherever the rest of the evidence went.
  update symphony.clock_marks m set seen_at = case when v_rows < p_limit then v_now else 'infinity' end;
  if v_rows > 0 then
    perform symphony.ring();
  end if;
  return v_rows;
end
$$;

comment on function symphony.reconcile_clock(int) is
  'After the clock of the database went back: brings a bounded number of rows back from the future, so that a payment that was never tried is due at once, a delay is as long as it was meant, and a lease lasts its length from now. 0 means that all is in line; to be called every few seconds, for then it costs a look. created_at stays.';

reset role;
