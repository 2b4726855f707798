create or replace function symphony.set_strict_order(
  p_participant_id text, p_strict boolean, p_by text, p_why text, p_unseen boolean default false) returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  if p_strict is null then
    raise exception 'strict must be true or false' using errcode = '22023';
  end if;
  perform symphony.set_participant(p_participant_id, null, p_strict,
                                   case when p_strict then 'order_strictly' else 'order_loosely' end, p_by, p_why, p_unseen);
end
$$;

comment on function symphony.set_strict_order(text, boolean, text, text, boolean) is
  'From the next claim on, a later payment of this participant waits for the verdict of the earlier one. Run reconcile_parking after a change. A participant without a payment is taken for a typing error (P0002) unless p_unseen.';

grant execute on function symphony.set_strict_order(text, boolean, text, text, boolean)
  to symphony_operator;
