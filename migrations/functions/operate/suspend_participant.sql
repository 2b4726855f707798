create or replace function symphony.suspend_participant(
  p_participant_id text, p_by text, p_why text, p_unseen boolean default false) returns void
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$ select symphony.set_participant(p_participant_id, 'SUSPENDED', null, 'suspend_participant', p_by, p_why, p_unseen) $$;

comment on function symphony.suspend_participant(text, text, text, boolean) is
  'Refuses new payments of a participant and leases none of its settled ones, from the next claim on. Run reconcile_parking to move a long queue out of the way at once. A participant without a payment is taken for a typing error (P0002) unless p_unseen.';

grant execute on function symphony.suspend_participant(text, text, text, boolean)
  to symphony_operator;
