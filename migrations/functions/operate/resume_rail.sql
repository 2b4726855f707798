create or replace function symphony.resume_rail(p_rail_type text, p_by text, p_why text) returns void
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$ select symphony.set_rail_state(p_rail_type, 'ENABLED', p_by, p_why) $$;

comment on function symphony.resume_rail(text, text, text) is 'Ends a pause. The pause used up no attempt.';

grant execute on function symphony.resume_rail(text, text, text)
  to symphony_operator;
