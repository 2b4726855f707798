-- Longer than a screen: one view has its columns twice, per rail and in total.
create or replace view symphony.outbox_status as
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
         -- Looked up once per rail, never per payment.
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
  'The queue as it is now, per rail and in total (rail_type null). It is derived from leases, never from the history. The attempts_ columns count attempts of payments accepted in the last 24 hours; dead_letters counts all that are kept; longest_wait_seconds is how long a payment has been due without a host taking it.';

grant select on symphony.outbox_status to symphony_readonly, symphony_auditor;
