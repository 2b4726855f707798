create or replace function symphony.set_rail_state(p_rail_type text, p_state text, p_by text, p_why text) returns void
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_identifier('rail_type', p_rail_type, 64);
  insert into symphony.rails as r (rail_type, state, changed_at)
  values (p_rail_type, p_state, symphony.clock())
  on conflict (rail_type) do update
    set state = excluded.state, changed_at = excluded.changed_at;
  perform symphony.note_act(case p_state when 'PAUSED' then 'pause_rail' else 'resume_rail' end, p_rail_type, p_by, p_why);
  perform symphony.notify_hosts();
end
$$;

comment on function symphony.set_rail_state(text, text, text, text) is
  'Pauses or enables a rail, known or not yet, and writes the act down.';
