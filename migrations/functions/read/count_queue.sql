create or replace function symphony.count_queue()
  returns table (rail_type text, pending bigint, leased_count bigint, expired_lease_count bigint,
                 oldest_pending_age_seconds double precision, longest_wait_seconds double precision, dead_letters bigint)
  language plpgsql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  -- Dead letters are counted by their index, never by reading the history. To compile takes longer than to count.
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
           -- Counted by their own index, which has no rails.
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
  'What a host shows of the queue every few seconds, as in outbox_status: one pass over what is pending, and a count of the dead letters by index, however long the history. Dead letters are counted only in the total (rail_type null).';

grant execute on function symphony.count_queue()
  to symphony_readonly;
