-- Longer than a screen, because rows go out of the function that updates them: handing them on through another one costs 2 %
-- of a claim of three rows, and 0.5 % of one of 500 (twelve interleaved rounds). lock_due_rows costs 1.5 % of the first and
-- nothing of the second.
create or replace function symphony.claim_outbox_batch(
  p_batch_size int, p_worker_id text, p_lease_seconds double precision,
  p_rails text[] default null, p_rail_limits int[] default null, p_rail_lease_seconds double precision[] default null,
  p_rail_after timestamptz[] default null, p_takeovers int default 100, p_rail_narrowed text[] default null)
  returns table (outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint, idempotency_key text,
                 rail_type text, payload jsonb, attempt_count int, next_attempt_at timestamptz, created_at timestamptz,
                 claimed_at timestamptz, lease_token uuid, lease_expires_at timestamptz, unsettled boolean,
                 handed_over_at timestamptz, past jsonb, rate_left int, taken_over boolean, holds int)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  -- Plans are made once a session: to plan a claim takes longer than to run it, and to compile one longer still.
  set plan_cache_mode = force_generic_plan
  set jit = off
  -- Such a plan must suit an empty queue and a queue of millions. It reads the rows in the order of their index and stops at
  -- the limit, and it finds locked rows by their place: it never reads a table, and collects or sorts no queue.
  set enable_seqscan = off
  set enable_sort = off
  set enable_bitmapscan = off
  as $$
#variable_conflict use_column
declare
  v_sound boolean := symphony.check_claim_arguments(p_batch_size, p_worker_id, p_lease_seconds, p_rails, p_rail_limits,
                                                    p_rail_lease_seconds, p_rail_after, p_takeovers, p_rail_narrowed);
  v_now timestamptz := symphony.clock();
  v_left int := p_batch_size;
  v_limits int[] := p_rail_limits;
  v_limit int;
  v_wanted bigint := 0;
  v_shared boolean := p_rail_limits is null;
  v_takeovers int := p_takeovers;
  v_rails text[];
  v_some_expired boolean;
  v_some_restricted boolean;
  v_some_on_hold boolean;
  v_some_captured boolean;
  v_divide_again boolean;
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
  v_due record;
  v_tids tid[];
  v_ids uuid[];
  v_participants text[];
  v_front timestamptz;
  v_some_parked boolean;
  v_token uuid;
  v_leased int;
  v_until timestamptz;
begin
  -- 1. Look once for all rails. Nearly always no lease has run out and no participant is held back.
  select coalesce((select c.lease_expires_at
                     from symphony.payment_outbox_claims c
                    order by c.lease_expires_at
                    limit 1) <= v_now, false),
         exists (select 1 from symphony.participants s where s.state = 'SUSPENDED' or s.strict_order),
         exists (select 1 from symphony.payment_outbox_holds),
         exists (select 1 from symphony.payment_outbox_captures)
    into v_some_expired, v_some_restricted, v_some_on_hold, v_some_captured;
  if not v_some_expired then
    v_takeovers := 0;
  end if;
  if v_limits is not null then
    foreach v_limit in array v_limits loop
      v_wanted := v_wanted + v_limit;
    end loop;
    v_shared := v_wanted > p_batch_size;
  end if;

  -- 2. Payments with a past first, where no rails are named. Nobody else makes sure that they get their turn, and new ones may
  -- arrive for ever: up to a quarter of the batch goes to them, the rest by the queue.
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

  -- 3. Divide the batch among rails. Where they share it, a row that was parked may have taken another rail's share: what is left
  -- is divided again, at most three times.
  for v_pass in 1..3 loop
    exit when v_left <= 0;
    v_divide_again := false;
    -- A host asks for no more than it has room for: then each rail gets what it may take, and the queues are not looked at.
    for v_rail in
      select s.*
        from (select r.rail_type, r.takes_new, r.narrowed, r.most as room, r.most as share, r.lease_seconds, r.after,
                     true as all_fit, r.rate_per_second, r.burst
                from symphony.rail_limits(p_batch_size, v_now, p_rails, v_limits, p_rail_lease_seconds, p_rail_after,
                                         p_lease_seconds, p_rail_narrowed) r
               where not v_shared and r.most > 0
              union all
              select c.*
                from symphony.claim_shares(v_left, v_now, p_rails, v_limits, p_rail_lease_seconds, p_rail_after,
                                           p_lease_seconds, v_takeovers, p_rail_narrowed) c
               where v_shared and c.share > 0) s
       order by s.rail_type
    loop
      v_divide_again := not v_rail.all_fit;
      v_want := least(v_left, v_rail.share);
      v_at := v_now;
      -- 4. Charge the rate: no more than the rail's bucket has tokens for all hosts.
      if v_rail.rate_per_second is not null then
        select b.tokens, b.refilled_at
          into v_tokens, v_at
          from symphony.lock_rate_bucket(v_rail.rail_type, v_now, v_rail.rate_per_second, v_rail.burst) b;
        v_refilled_at := v_at;
        v_want := least(v_want, floor(v_tokens)::int);
      end if;
      continue when v_want <= 0;

      -- 5. Take over. Expired leases are freed as repair would do it, due at once, and leased again where nothing forbids it. It
      -- reads 20 earlier claims at most.
      v_taken := null;
      if v_takeovers > 0 then
        select array_agg(z.outbox_id) filter (where z.state = 'ZOMBIE_REQUEUE'), count(*)
          into v_taken, v_freed
          from symphony.requeue_expired(least(v_takeovers, v_want), p_worker_id, interval '0', v_rail.rail_type, 20) z;
        v_takeovers := v_takeovers - v_freed;
      end if;

      v_taken_of_rail := 0;
      v_from_taken := v_taken is not null;
      -- 6. Lock rows, those first that were taken over. Rows that must not be leased are parked, and then no claim meets them
      -- again: look once more, 20 times at most.
      for v_round in 1..20 loop
        if v_from_taken then
          select array_agg(t.tid), array_agg(t.outbox_id), array_agg(t.participant_id)
            into v_tids, v_ids, v_participants
            from (select p.ctid as tid, p.outbox_id, p.participant_id
                    from symphony.payment_outbox_pending p
                   where p.outbox_id = any (v_taken) and not p.parked and (p.unsettled or v_rail.takes_new)
                   order by p.next_attempt_at, p.created_at, p.sequence_id) t;
          v_front := null;
        else
          v_due := symphony.lock_due_rows(v_rail.rail_type, v_rail.takes_new, v_rail.narrowed, v_rail.after, v_at, v_want);
          exit when v_due.tids is null;
          v_tids := v_due.tids;
          v_ids := v_due.ids;
          v_participants := v_due.participants;
          v_front := v_due.front;
        end if;

        -- 7. Park what must not be leased: rows of suspended participants, and rows behind the head of a strict stream.
        v_some_parked := false;
        if v_some_restricted
           and exists (select 1
                         from symphony.participants s
                        where s.participant_id = any (v_participants) and (s.state = 'SUSPENDED' or s.strict_order)) then
          -- A head may have been promoted after this claim began, and must not look as if it had been claimed before that.
          v_at := symphony.clock();
          select k.tids, k.ids, k.front, k.some_parked
            into v_tids, v_ids, v_front, v_some_parked
            from symphony.park_restricted_rows(v_tids) k;
        end if;

        v_leased := coalesce(cardinality(v_tids), 0);
        if v_leased > 0 then
          -- 8. Lease under one token, and write the claim by which repair finds the leases.
          v_token := gen_random_uuid();
          v_until := v_at + make_interval(secs => v_rail.lease_seconds);
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
                      case when v_some_on_hold
                           then coalesce((select h.calls from symphony.payment_outbox_holds h where h.outbox_id = p.outbox_id), 0)
                           else 0 end;
          insert into symphony.payment_outbox_claims
                 (lease_expires_at, lease_token, rail_type, claimed_by, claimed_at, outbox_ids)
          values (v_until, v_token, v_rail.rail_type, p_worker_id, v_at, v_ids);
          -- 9. Move the queue's front. Where another claim is writing now how far the queue has come, ours is not needed.
          if v_front is not null
             and pg_try_advisory_xact_lock(
                   hashtextextended(v_rail.rail_type, 'symphony.rail_fronts'::regclass::oid::bigint)) then
            insert into symphony.rail_fronts as f (rail_type, front)
            values (v_rail.rail_type, v_front)
            on conflict (rail_type) do update set front = excluded.front where f.front < excluded.front;
          end if;
        end if;
        v_taken_of_rail := v_taken_of_rail + v_leased;
        v_want := v_want - v_leased;
        exit when v_want <= 0 or not (v_from_taken or v_some_parked);
        v_from_taken := false;
      end loop;

      v_left := v_left - v_taken_of_rail;
      if v_divide_again and v_limits is not null then
        v_limits[array_position(p_rails, v_rail.rail_type)] := v_rail.room - v_taken_of_rail;
      end if;
      -- 10. Write what is left in the bucket.
      if v_rail.rate_per_second is not null then
        update symphony.rail_token_buckets b
           set tokens = v_tokens - v_taken_of_rail, refilled_at = v_refilled_at
         where b.rail_type = v_rail.rail_type;
      end if;
      exit when v_left <= 0;
    end loop;
    exit when not v_divide_again;
  end loop;
end
$$;

comment on function symphony.claim_outbox_batch(int, text, double precision, text[], int[], double precision[], timestamptz[], int, text[]) is
  'Leases due rows, rail by rail, each rail in the order of next_attempt_at and created_at. Without rails it leases any, and up to a quarter of the batch goes first to rows that were tried or may have left. p_rail_narrowed narrows a rail: ASKED leases only rows that may have left and must be asked about, TRIED also those tried before; both find their rows however long the queue is. p_rail_after lets a host skip what it has seen finished; it must claim without this bound at least every second. Expired leases are taken over, each with its row in the history. rate_left: tokens left in the rail''s bucket. taken_over: an expired lease was ended for this one. holds: how often it met a rail that could not pay.';

grant execute on function symphony.claim_outbox_batch(int, text, double precision, text[], int[], double precision[], timestamptz[], int, text[])
  to symphony_executor;
