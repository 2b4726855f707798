-- Called under the planner settings of requeue_expired alone.
create or replace function symphony.refresh_claim(p_lease_expires_at timestamptz, p_lease_token uuid, p_ids uuid[])
  returns void
  language plpgsql
  as $$
declare
  v_held record;
begin
  select array_agg(p.outbox_id) as ids, min(p.lease_expires_at) as until into v_held
    from symphony.payment_outbox_pending p
   where p.outbox_id = any (p_ids)
     and p.lease_token = p_lease_token;
  if v_held.ids is null then
    delete from symphony.payment_outbox_claims c
     where c.lease_expires_at = p_lease_expires_at and c.lease_token = p_lease_token;
  else
    update symphony.payment_outbox_claims c
       set outbox_ids = v_held.ids, lease_expires_at = v_held.until
     where c.lease_expires_at = p_lease_expires_at and c.lease_token = p_lease_token;
  end if;
end
$$;

comment on function symphony.refresh_claim(timestamptz, uuid, uuid[]) is
  'Removes a claim of which nothing is held any more. What is still held under its token was extended, or is locked by a completion now: then the claim is due again when the first of these leases ends.';
