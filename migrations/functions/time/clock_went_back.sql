create or replace function symphony.clock_went_back(p_now timestamptz) returns boolean
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
  'Whether something carries a time in the future: the mark of the last look, the fronts of the queues, the reports of hosts, the leases that end last, the youngest payments. It reads a few rows by index, however long the queue.';
