-- What people and dashboards look at. Views run with their owner's rights: readers need no grant on the tables behind.
set local role symphony_control;

create view symphony.outbox_status as
with queue as (
  select p.rail_type,
         count(*) as pending,
         count(*) filter (where p.lease_token is not null and p.lease_expires_at > t.now) as leased_count,
         count(*) filter (where p.lease_token is not null and p.lease_expires_at <= t.now) as expired_lease_count,
         count(*) filter (where p.lease_token is null and p.next_attempt_at <= t.now
                            and not p.parked and (p.unsettled or coalesce(r.state, 'ENABLED') = 'ENABLED')) as due_unleased_count,
         count(*) filter (where p.lease_token is null and p.next_attempt_at > t.now
                            and not p.parked and (p.unsettled or coalesce(r.state, 'ENABLED') = 'ENABLED')) as scheduled,
         count(*) filter (where p.lease_token is null
                            and (p.parked or (not p.unsettled and r.state = 'PAUSED'))) as parked,
         count(*) filter (where p.unsettled) as unsettled,
         extract(epoch from t.now - min(p.created_at))::double precision as oldest_pending_age_seconds,
         extract(epoch from t.now - min(greatest(p.next_attempt_at, p.created_at))
                   filter (where p.lease_token is null and p.next_attempt_at <= t.now and not p.parked
                             and (p.unsettled or coalesce(r.state, 'ENABLED') = 'ENABLED')))::double precision
           as longest_wait_seconds
    from symphony.payment_outbox_pending p
   cross join (select symphony.clock() as now) t
    left join symphony.rails r on r.rail_type = p.rail_type
   group by p.rail_type, t.now
),
recent as (
  select a.rail_type,
         count(*) filter (where a.state = 'DISPATCHED') as dispatched,
         count(*) filter (where a.state = 'RETRYABLE') as retryable,
         count(*) filter (where a.state = 'FAILED') as failed,
         count(*) filter (where a.state = 'ZOMBIE_REQUEUE') as zombie_requeue
    from symphony.payment_outbox_attempts a
   where a.outbox_id >= symphony.uuidv7_floor(symphony.clock() - interval '1 day')
   group by a.rail_type
),
dead as (
  select a.rail_type, count(*) as dead_letters
    from symphony.payment_outbox_attempts a
   where a.state = 'FAILED'
   group by a.rail_type
),
per_rail as (
  select n.rail_type, coalesce(r.state, 'ENABLED') as rail_state,
         coalesce(q.pending, 0) as pending, coalesce(q.leased_count, 0) as leased_count,
         coalesce(q.expired_lease_count, 0) as expired_lease_count,
         coalesce(q.due_unleased_count, 0) as due_unleased_count, coalesce(q.scheduled, 0) as scheduled,
         coalesce(q.parked, 0) as parked, coalesce(q.unsettled, 0) as unsettled,
         -- Asked once for a rail, never for each of its payments.
         case when exists (select 1 from symphony.relay_hosts h
                            where n.rail_type = any (h.rails) and h.seen_at > symphony.clock() - interval '1 minute')
              then 0 else coalesce(q.pending, 0) end as unroutable, q.oldest_pending_age_seconds, q.longest_wait_seconds,
         coalesce(a.dispatched, 0) as attempts_dispatched, coalesce(a.retryable, 0) as attempts_retryable,
         coalesce(a.failed, 0) as attempts_failed, coalesce(a.zombie_requeue, 0) as attempts_zombie_requeue,
         coalesce(d.dead_letters, 0) as dead_letters
    from (select rail_type from queue
          union select rail_type from recent
          union select rail_type from dead
          union select rail_type from symphony.rails) n
    left join queue q on q.rail_type = n.rail_type
    left join recent a on a.rail_type = n.rail_type
    left join dead d on d.rail_type = n.rail_type
    left join symphony.rails r on r.rail_type = n.rail_type
)
select p.rail_type, p.rail_state, p.pending, p.leased_count, p.expired_lease_count, p.due_unleased_count, p.scheduled,
       p.parked, p.unsettled, p.unroutable, p.oldest_pending_age_seconds, p.longest_wait_seconds, p.attempts_dispatched, p.attempts_retryable,
       p.attempts_failed, p.attempts_zombie_requeue, p.dead_letters
  from per_rail p
union all
select null, null, coalesce(sum(p.pending), 0)::bigint, coalesce(sum(p.leased_count), 0)::bigint,
       coalesce(sum(p.expired_lease_count), 0)::bigint, coalesce(sum(p.due_unleased_count), 0)::bigint,
       coalesce(sum(p.scheduled), 0)::bigint, coalesce(sum(p.parked), 0)::bigint, coalesce(sum(p.unsettled), 0)::bigint,
       coalesce(sum(p.unroutable), 0)::bigint, max(p.oldest_pending_age_seconds), max(p.longest_wait_seconds),
       coalesce(sum(p.attempts_dispatched), 0)::bigint, coalesce(sum(p.attempts_retryable), 0)::bigint,
       coalesce(sum(p.attempts_failed), 0)::bigint, coalesce(sum(p.attempts_zombie_requeue), 0)::bigint,
       coalesce(sum(p.dead_letters), 0)::bigint
  from per_rail p;

comment on view symphony.outbox_status is
  'The queue as it is now, per rail and in total (rail_type null). Derived from leases, never from a row in the history. The attempts_ columns count payments accepted in the last 24 hours; dead_letters counts all that is kept; longest_wait_seconds is how long a payment has been due that no host took.';

create function symphony.count_queue()
  returns table (rail_type text, pending bigint, leased_count bigint, expired_lease_count bigint,
                 oldest_pending_age_seconds double precision, longest_wait_seconds double precision, dead_letters bigint)
  language plpgsql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  set enable_seqscan = off
  set jit = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
begin
  return query
    select q.rail_type, coalesce(sum(q.pending), 0)::bigint, coalesce(sum(q.leased), 0)::bigint,
           coalesce(sum(q.expired), 0)::bigint,
           extract(epoch from v_now - min(q.oldest))::double precision,
           extract(epoch from v_now - min(least(
             q.asked_since, case when coalesce(r.state, 'ENABLED') = 'ENABLED' then q.ready_since end)))::double precision,
           -- By their own index, which knows no rails.
           case when grouping(q.rail_type) = 1 then
             (select count(*) from symphony.payment_outbox_attempts a where a.state = 'FAILED') end
      from (select p.rail_type, count(*) as pending,
                   count(*) filter (where p.lease_expires_at > v_now) as leased,
                   count(*) filter (where p.lease_expires_at <= v_now) as expired,
                   min(p.created_at) as oldest,
                   min(greatest(p.next_attempt_at, p.created_at))
                     filter (where p.unsettled and p.lease_token is null and p.next_attempt_at <= v_now) as asked_since,
                   min(greatest(p.next_attempt_at, p.created_at))
                     filter (where not p.unsettled and not p.parked and p.lease_token is null
                               and p.next_attempt_at <= v_now) as ready_since
              from symphony.payment_outbox_pending p
             group by p.rail_type) q
      left join symphony.rails r on r.rail_type = q.rail_type
     group by grouping sets ((q.rail_type), ());
end
$$;

comment on function symphony.count_queue() is
  'What a host shows of the queue every few seconds, as in outbox_status: one pass over what is pending and a count of the dead letters, however long the history. They are counted in the total alone (rail_type null).';

create view symphony.payment_timeline as
select r.outbox_id, symphony.uuidv7_time(r.outbox_id) as at, 'ACCEPTED' as event,
       jsonb_build_object('participant_id', r.participant_id, 'sequence_id', r.sequence_id) as detail
  from symphony.payment_outbox_records r
union all
select a.outbox_id, a.completed_at, a.state::text,
       jsonb_strip_nulls(jsonb_build_object(
         'attempt_no', a.attempt_no, 'rail_type', a.rail_type, 'worker_id', a.worker_id, 'claimed_at', a.claimed_at,
         'latency_ms', a.latency_ms, 'money_moved', a.money_moved, 'rail_reference', a.rail_reference,
         'rail_code', a.rail_code, 'error_code', a.error_code, 'error_message', a.error_message,
         'adapter_digest', encode(a.adapter_digest, 'hex'), 'rail_digest', encode(a.rail_digest, 'hex'),
         'request_digest', encode(a.request_digest, 'hex'), 'reply_digest', encode(a.reply_digest, 'hex'),
         'witness', a.witness, 'facts', a.facts, 'instruction_id', a.instruction_id))
  from symphony.payment_outbox_attempts a
union all
select v.outbox_id, v.completed_at, v.state,
       jsonb_strip_nulls(jsonb_build_object(
         'attempt_no', v.attempt_no, 'money_moved', v.money_moved, 'rail_reference', v.rail_reference,
         'error_code', v.error_code, 'history', 'gone'))
  from symphony.payment_outbox_verdicts v
 where not exists (select 1 from symphony.payment_outbox_attempts a where a.outbox_id = v.outbox_id)
union all
select p.outbox_id, coalesce(case when p.lease_token is not null then p.claimed_at end, greatest(p.next_attempt_at, p.created_at)),
       case when p.lease_token is not null then 'LEASED' when p.parked then 'PARKED'
            when p.next_attempt_at > symphony.clock() then 'SCHEDULED' else 'DUE' end,
       jsonb_strip_nulls(jsonb_build_object(
         'rail_type', p.rail_type, 'instruction_id', p.instruction_id, 'attempt_count', p.attempt_count,
         'unsettled', p.unsettled, 'claimed_by', p.claimed_by, 'lease_expires_at', p.lease_expires_at,
         'handed_over_at', p.handed_over_at, 'next_attempt_at', p.next_attempt_at))
  from symphony.payment_outbox_pending p
union all
select l.outbox_id, l.recorded_at,
       case when l.money_moved = 'yes' or l.state = 'DISPATCHED' then 'LATE_SUCCESS' when l.state = 'FAILED' then 'LATE_FAILURE' else 'LATE_ANSWER' end,
       jsonb_strip_nulls(jsonb_build_object(
         'worker_id', l.worker_id, 'state', l.state, 'money_moved', l.money_moved, 'rail_reference', l.rail_reference,
         'rail_code', l.rail_code, 'error_code', l.error_code, 'error_message', l.error_message))
  from symphony.payment_outbox_late_answers l
union all
select h.outbox_id, h.last_held_at, 'HELD',
       jsonb_strip_nulls(jsonb_build_object(
         'times', h.times, 'first_held_at', h.first_held_at, 'rail_type', h.rail_type, 'worker_id', h.worker_id,
         'rail_code', h.rail_code, 'error_code', h.error_code, 'error_message', h.error_message,
         'adapter_digest', encode(h.adapter_digest, 'hex')))
  from symphony.payment_outbox_holds h
union all
select r.outbox_id, r.resolved_at, 'RESOLVED',
       jsonb_build_object('money_moved', r.money_moved, 'by', r.by_whom, 'login', r.login, 'why', r.why, 'evidence', r.evidence)
  from symphony.payment_outbox_resolutions r
union all
select r.predecessor_id, r.reissued_at, 'REISSUED_AS',
       jsonb_build_object('outbox_id', r.successor_id, 'by', r.by_whom, 'login', r.login, 'why', r.why)
  from symphony.payment_outbox_reissues r
union all
select r.successor_id, r.reissued_at, 'REISSUE_OF',
       jsonb_build_object('outbox_id', r.predecessor_id, 'by', r.by_whom, 'login', r.login, 'why', r.why)
  from symphony.payment_outbox_reissues r;

comment on view symphony.payment_timeline is
  'Every event of a payment; ask for one outbox_id and order by at. The last row of an unfinished payment says where it stands.';

create view symphony.payments_needing_review as
select a.outbox_id, a.instruction_id, a.participant_id, a.rail_type, a.completed_at as since,
       case when a.error_code in ('OUTCOME_UNKNOWN', 'ADAPTER_VETO') then a.error_code
            else 'FINAL_NO_TO_LOOK_AT' end as reason,
       a.error_code, a.rail_code, a.error_message,
       exists (select 1 from symphony.payment_outbox_late_answers l where l.outbox_id = a.outbox_id) as has_late_answer
  from symphony.payment_outbox_attempts a
 where a.state = 'FAILED' and a.money_moved = 'unknown'
   and not exists (select 1 from symphony.payment_outbox_resolutions r where r.outbox_id = a.outbox_id)
union all
select a.outbox_id, a.instruction_id, a.participant_id, a.rail_type, l.recorded_at, 'LATE_SUCCESS',
       a.error_code, l.rail_code, l.error_message, true
  from symphony.payment_outbox_late_answers l
  join symphony.payment_outbox_attempts a on a.outbox_id = l.outbox_id and a.state = 'FAILED'
  left join lateral (select r.money_moved, r.resolved_at
                       from symphony.payment_outbox_resolutions r
                      where r.outbox_id = l.outbox_id
                      order by r.finding_no desc
                      limit 1) found on true
 where (l.money_moved = 'yes' or l.state = 'DISPATCHED')
   and coalesce(found.money_moved, a.money_moved) = 'no'
   -- Who found that it was not paid knew what had been heard by then, and nothing of this.
   and l.recorded_at > coalesce(found.resolved_at, '-infinity')
union all
select p.outbox_id, p.instruction_id, p.participant_id, p.rail_type, veto.completed_at, veto.error_code,
       veto.error_code, veto.rail_code, veto.error_message,
       exists (select 1 from symphony.payment_outbox_late_answers l where l.outbox_id = p.outbox_id)
  from symphony.payment_outbox_pending p
 cross join lateral (select a.completed_at, a.error_code, a.rail_code, a.error_message
                       from symphony.payment_outbox_attempts a
                      where a.outbox_id = p.outbox_id and a.error_code = 'ADAPTER_VETO'
                      order by a.attempt_no
                      limit 1) veto
 where p.unsettled
union all
select a.outbox_id, a.instruction_id, a.participant_id, a.rail_type, a.completed_at, a.error_code,
       a.error_code, a.rail_code, a.error_message,
       exists (select 1 from symphony.payment_outbox_late_answers l where l.outbox_id = a.outbox_id)
  from symphony.payment_outbox_attempts a
 where a.error_code = 'ECHO_DIFFERS'
   and not exists (select 1 from symphony.payment_outbox_resolutions r where r.outbox_id = a.outbox_id)
union all
select p.outbox_id, p.instruction_id, p.participant_id, p.rail_type, p.created_at, 'SLA_EXCEEDED', null, null, null,
       exists (select 1 from symphony.payment_outbox_late_answers l where l.outbox_id = p.outbox_id)
  from symphony.rails r
  join symphony.payment_outbox_pending p
    on p.rail_type = r.rail_type
   and p.outbox_id < symphony.uuidv7_floor(symphony.statement_clock() - make_interval(secs => r.sla_seconds));

comment on view symphony.payments_needing_review is
  'What a person has to look at, and why: an outcome the rail left open, a failure whose reason no table lists, a success heard after a failure or after a finding that it was none, a verdict that the adapter did not bear out (at once, while others still ask what became of it), a success that names another amount or payee than instructed, a payment open for longer than its rail allows.';

create view symphony.payments as
select p.outbox_id, p.instruction_id, p.idempotency_key, p.participant_id, p.sequence_id, p.rail_type,
       case when p.lease_token is not null then 'LEASED' when p.parked then 'PARKED'
            when p.next_attempt_at > symphony.statement_clock() then 'SCHEDULED' else 'PENDING' end as state,
       p.unsettled, p.attempt_count as attempts, p.created_at, null::timestamptz as ended_at,
       case when p.unsettled then 'unknown' end as money_moved,
       said.error_code, said.rail_code, said.rail_reference, said.error_message, p.payload,
       p.payload ->> 'amount' as amount, p.payload ->> 'currency' as currency,
       case when jsonb_typeof(p.payload -> 'destination') = 'object'
            then coalesce(p.payload #>> '{destination,msisdn}', p.payload #>> '{destination,account}')
            else p.payload ->> 'destination' end as payee,
       null::text as resolved, null::uuid as reissued_as,
       exists (select 1 from symphony.payments_needing_review n where n.outbox_id = p.outbox_id) as needs_review
  from symphony.payment_outbox_pending p
  -- What was heard last: by an attempt, or at a hold.
  left join lateral (select w.*
                       from ((select a.completed_at as at, a.error_code, a.rail_code, a.rail_reference, a.error_message
                                from symphony.payment_outbox_attempts a
                               where p.attempt_count > 0 and a.outbox_id = p.outbox_id
                               order by a.attempt_no desc
                               limit 1)
                             union all
                             select h.last_held_at, h.error_code, h.rail_code, null, h.error_message
                               from symphony.payment_outbox_holds h
                              where h.outbox_id = p.outbox_id) w
                      order by w.at desc
                      limit 1) said on true
union all
select a.outbox_id, a.instruction_id, a.idempotency_key, a.participant_id, a.sequence_id, a.rail_type,
       a.state::text, false, a.attempt_no, symphony.uuidv7_time(a.outbox_id), a.completed_at, a.money_moved,
       a.error_code, a.rail_code, a.rail_reference, a.error_message, a.payload,
       a.payload ->> 'amount', a.payload ->> 'currency',
       case when jsonb_typeof(a.payload -> 'destination') = 'object'
            then coalesce(a.payload #>> '{destination,msisdn}', a.payload #>> '{destination,account}')
            else a.payload ->> 'destination' end,
       (select r.money_moved from symphony.payment_outbox_resolutions r
         where r.outbox_id = a.outbox_id order by r.finding_no desc limit 1),
       (select r.successor_id from symphony.payment_outbox_reissues r where r.predecessor_id = a.outbox_id),
       exists (select 1 from symphony.payments_needing_review n where n.outbox_id = a.outbox_id)
  from symphony.payment_outbox_attempts a
 where a.state in ('DISPATCHED', 'FAILED');

comment on view symphony.payments is
  'One row per payment that is pending or whose verdict is in the history. Ask for a range of outbox_id (symphony.uuidv7_floor(time) is its border) and only the months of that range are read. error_code and its neighbours are what was heard last; resolved is what a person found of the money.';

create view symphony.blocked_streams as
select s.participant_id, h.outbox_id as head_id, h.rail_type, h.created_at as since, h.attempt_count as attempts, h.unsettled,
       w.waiting
  from symphony.participants s
 cross join lateral (select e.outbox_id, e.rail_type, e.created_at, e.attempt_count, e.unsettled
                       from symphony.payment_outbox_pending e
                      where e.participant_id = s.participant_id
                      order by e.sequence_id
                      limit 1) h
 cross join lateral (select count(*) as waiting
                       from symphony.payment_outbox_pending p
                      where p.participant_id = s.participant_id and p.parked and p.outbox_id <> h.outbox_id) w
 where s.strict_order and w.waiting > 0;

comment on view symphony.blocked_streams is
  'Strictly ordered participants of whom payments wait, and the payment whose verdict they wait for.';

create view symphony.sequence_gaps as
select g.participant_id, g.gap_from, g.gap_until
  from (select r.participant_id,
               coalesce(lag(r.sequence_id) over stream, 0) + 1 as gap_from,
               r.sequence_id - 1 as gap_until
          from symphony.payment_outbox_records r
        window stream as (partition by r.participant_id order by r.sequence_id)) g
 where g.gap_from <= g.gap_until
union all
select s.participant_id, coalesce(l.last, 0) + 1, s.next_sequence_id - 1
  from symphony.participant_outbox_sequences s
 cross join lateral (select max(r.sequence_id) as last
                       from symphony.payment_outbox_records r
                      where r.participant_id = s.participant_id) l
 where coalesce(l.last, 0) <> s.next_sequence_id - 1;

comment on view symphony.sequence_gaps is
  'Numbers that were given out and lead to no payment. No row is the proof that there are none; ask for one participant to prove one stream.';

create function symphony.sequence_gaps_between(p_participant_id text, p_from timestamptz, p_until timestamptz)
  returns table (participant_id text, gap_from bigint, gap_until bigint)
  language plpgsql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  set jit = off
  as $$
#variable_conflict use_column
declare
  v_reaches_now boolean := p_until > symphony.clock();
begin
  if p_from is null or p_until is null or p_from >= p_until then
    raise exception 'a window begins before it ends, and both must be given' using errcode = '22023';
  end if;
  return query
    with edges as materialized (
      select r.participant_id, min(r.sequence_id) as low, max(r.sequence_id) as high
        from symphony.payment_outbox_records r
       where r.outbox_id >= symphony.uuidv7_floor(p_from) and r.outbox_id < symphony.uuidv7_floor(p_until)
         and (p_participant_id is null or r.participant_id = p_participant_id)
       group by r.participant_id
    )
    select e.participant_id::text, n.before + 1, n.sequence_id - 1
      from edges e
     -- What is missing across the border belongs to the window that comes after it, or no window would tell of it.
     cross join lateral (select coalesce(max(r.sequence_id), 0) as number
                           from symphony.payment_outbox_records r
                          where r.participant_id = e.participant_id and r.sequence_id < e.low) last
     -- All numbers in between, whenever they were given: the clock may have gone back over the window's border.
     cross join lateral (select r.sequence_id, lag(r.sequence_id, 1, last.number) over (order by r.sequence_id) as before
                           from symphony.payment_outbox_records r
                          where r.participant_id = e.participant_id and r.sequence_id between e.low and e.high) n
     where n.before < n.sequence_id - 1
    union all
    -- Behind the last payment of all only the counter knows of numbers, and not when it gave them.
    select s.participant_id::text, coalesce(l.last, 0) + 1, s.next_sequence_id - 1
      from symphony.participant_outbox_sequences s
     cross join lateral (select max(r.sequence_id) as last
                           from symphony.payment_outbox_records r
                          where r.participant_id = s.participant_id) l
     where v_reaches_now
       and (p_participant_id is null or s.participant_id = p_participant_id)
       and coalesce(l.last, 0) <> s.next_sequence_id - 1
     order by 1, 2;
end
$$;

comment on function symphony.sequence_gaps_between(text, timestamptz, timestamptz) is
  'The gaps of a window, of one participant or (null) of all: numbers that lead to no payment, between the last one before the window''s first payment and its last one, and, where the window reaches beyond now, up to the participant''s counter. Windows that follow each other leave no number out.';

reset role;
