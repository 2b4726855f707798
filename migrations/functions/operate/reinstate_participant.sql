create or replace function symphony.reinstate_participant(p_participant_id text, p_by text, p_why text) returns void
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$ select symphony.set_participant(p_participant_id, 'ACTIVE', null, 'reinstate_participant', p_by, p_why, false) $$;

comment on function symphony.reinstate_participant(text, text, text) is
  'Ends a suspension. Run reconcile_parking until it answers 0 to make the parked payments due again.';

grant execute on function symphony.reinstate_participant(text, text, text)
  to symphony_operator;
