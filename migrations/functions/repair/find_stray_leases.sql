create or replace function symphony.find_stray_leases(p_worker_id text, p_from_page int, p_pages int) returns int
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  -- The range of pages is to be read by a TID range scan: the other ways would read all of the queue.
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

  -- What claims and repairs find without help.
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

comment on function symphony.find_stray_leases(text, int, int) is
  'Reads a number of pages of the queue, from a given page on, for leases that ran out and stand in no claim. Each gets a row among the claims, so that repair and claim find it. Answers with the next page, 0 at the end. To be called again and again, slowly.';

grant execute on function symphony.find_stray_leases(text, int, int)
  to symphony_executor;
