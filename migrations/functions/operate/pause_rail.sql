create or replace function symphony.pause_rail(p_rail_type text, p_by text, p_why text) returns void
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$ select symphony.set_rail_state(p_rail_type, 'PAUSED', p_by, p_why) $$;

comment on function symphony.pause_rail(text, text, text) is
  'No new lease for disbursement on this rail. What may have been handed over is still asked about.';

grant execute on function symphony.pause_rail(text, text, text)
  to symphony_operator;
