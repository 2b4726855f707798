-- Called under the planner settings of reconcile_clock alone.
create or replace function symphony.bring_rows_back(
  p_ids uuid[], p_waits interval[], p_claims timestamptz[], p_now timestamptz, p_soon timestamptz, p_longest timestamptz)
  returns void
  language plpgsql
  as $$
begin
  update symphony.payment_outbox_pending p
     set claimed_at = w.claimed_at,
         next_attempt_at = case when p.lease_token is not null and p.claimed_at <= p_soon then p.next_attempt_at
                                else p_now + w.wait end,
         -- Its full length from now: never shorter than its holder believes.
         lease_expires_at = case when p.lease_token is null then null
                                 when p.claimed_at > p_soon
                                   then least(p_now + (p.lease_expires_at - p.claimed_at), p_longest)
                                 else least(p.lease_expires_at, p_longest) end,
         -- A mark of this lease stays one of this lease, and a mark of an earlier lease stays older.
         handed_over_at = case when p.handed_over_at is null then null
                               when p.lease_token is not null and p.handed_over_at >= p.claimed_at
                                 then greatest(least(p.handed_over_at, p_now), w.claimed_at)
                               else least(p.handed_over_at, p_now - interval '1 microsecond') end
    from unnest(p_ids, p_waits, p_claims) as w(id, wait, claimed_at)
   where p.outbox_id = w.id;
  update symphony.payment_outbox_holds h set last_held_at = p_now where h.outbox_id = any (p_ids) and h.last_held_at > p_soon;
end
$$;

comment on function symphony.bring_rows_back(uuid[], interval[], timestamptz[], timestamptz, timestamptz, timestamptz) is
  'Sets the times of these rows as if their last step had been now: what they wait for, their lease, their mark, their hold.';
