-- Called under the planner settings of requeue_expired alone.
create or replace function symphony.lock_expired_rows(
  p_outbox_ids uuid[], p_lease_token uuid, p_now timestamptz, p_limit int, out held uuid[], out ids uuid[])
  language plpgsql
  as $$
begin
  -- Nearly always all of the claim was ended in time: one look at the ids, and nothing more to do.
  held := array(
    select p.outbox_id
      from symphony.payment_outbox_pending p
     where p.outbox_id = any (p_outbox_ids)
       and p.lease_token = p_lease_token);

  select array_agg(l.outbox_id) into ids
    from (select p.outbox_id
            from symphony.payment_outbox_pending p
           where p.outbox_id = any (held)
             and p.lease_token = p_lease_token
             and p.lease_expires_at <= p_now
           order by p.outbox_id
           limit p_limit
             for update skip locked) l;
end
$$;

comment on function symphony.lock_expired_rows(uuid[], uuid, timestamptz, int) is
  'Of one claim: all rows that are still held under its token, and those of them whose lease has run out. These it locks in the order of their ids, and skips what others have locked.';
