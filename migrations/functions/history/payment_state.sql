create or replace function symphony.payment_state(p_outbox_id uuid) returns text
  language sql stable
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select coalesce(
      (select 'PENDING' from symphony.payment_outbox_pending where outbox_id = p_outbox_id),
      (select state::text from symphony.payment_outbox_attempts
        where outbox_id = p_outbox_id order by attempt_no desc limit 1),
      (select state from symphony.payment_outbox_verdicts where outbox_id = p_outbox_id))
  $$;

comment on function symphony.payment_state(uuid) is 'PENDING, or the state of the last attempt, also after the history has gone.';
