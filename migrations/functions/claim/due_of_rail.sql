-- Without SET and not volatile: it is inlined into claim_shares, and costs nothing beside the plan.
create or replace function symphony.due_of_rail(
  p_rail_type text, p_takes_new boolean, p_narrowed text, p_after timestamptz, p_now timestamptz, p_most int, p_takeovers int)
  returns table (due_at timestamptz, created_at timestamptz)
  language sql stable
  as $$
    (select p.next_attempt_at, p.created_at
       from symphony.payment_outbox_pending p
      where p_takes_new and p_narrowed is null and p.rail_type = p_rail_type
        and not p.unsettled and not p.parked
        and p.next_attempt_at >= p_after and p.next_attempt_at <= p_now
        and p.lease_token is null
      order by p.next_attempt_at, p.created_at
      limit p_most)
    union all
    (select p.next_attempt_at, p.created_at
       from symphony.payment_outbox_pending p
      where p_takes_new and p_narrowed is not null and p.rail_type = p_rail_type
        and not p.unsettled and not p.parked and p.attempt_count > 0
        and p.next_attempt_at >= p_after and p.next_attempt_at <= p_now
        and p.lease_token is null
      order by p.next_attempt_at, p.created_at
      limit p_most)
    union all
    (select p.next_attempt_at, p.created_at
       from symphony.payment_outbox_pending p
      where p.rail_type = p_rail_type and p.unsettled
        and p.next_attempt_at >= p_after and p.next_attempt_at <= p_now
        and p.lease_token is null
      order by p.next_attempt_at, p.created_at
      limit p_most)
    union all
    -- What may be taken over counts from the end of its lease. A claim of which nothing is held counts for nothing.
    (select p.lease_expires_at, p.created_at
       from (select c.lease_token, c.outbox_ids
               from symphony.payment_outbox_claims c
              where c.rail_type = p_rail_type and c.lease_expires_at <= p_now
              order by c.lease_expires_at
              limit 20) c
      cross join lateral unnest(c.outbox_ids) as i(id)
       join symphony.payment_outbox_pending p on p.outbox_id = any (array[i.id]) and p.lease_token = c.lease_token
      where p.lease_expires_at <= p_now
      limit least(p_most, p_takeovers))
  $$;

comment on function symphony.due_of_rail(text, boolean, text, timestamptz, timestamptz, int, int) is
  'Since when the rows of a rail are due that a claim could take now, by their own index each: new ones, those tried before, those to be asked about, expired leases. It locks nothing.';
