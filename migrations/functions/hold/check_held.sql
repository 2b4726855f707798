create or replace function symphony.check_held(p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[]) returns void
  language plpgsql immutable
  as $$
begin
  perform symphony.check_lease_arguments(cardinality(p_outbox_ids), p_worker_id, 1);
  if p_lease_tokens is null or cardinality(p_lease_tokens) <> cardinality(p_outbox_ids) then
    raise exception 'ids and tokens must be arrays of one length' using errcode = '22023';
  end if;
end
$$;

comment on function symphony.check_held(text, uuid[], uuid[]) is 'check_lease_arguments, for calls that name leases by ids and tokens.';
