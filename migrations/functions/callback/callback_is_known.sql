create or replace function symphony.callback_is_known(p_token uuid) returns boolean
  language sql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select exists (select 1 from symphony.payment_outbox_late_answers l where l.lease_token = p_token and l.of_key)
  $$;

comment on function symphony.callback_is_known(uuid) is
  'Whether this callback was kept before, for any payment. p_token is made of its digest.';

grant execute on function symphony.callback_is_known(uuid)
  to symphony_executor;
