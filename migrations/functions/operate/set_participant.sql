create or replace function symphony.set_participant(
  p_participant_id text, p_state text, p_strict_order boolean, p_act text, p_by text, p_why text, p_unseen boolean)
  returns void
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_identifier('participant_id', p_participant_id, 256);
  -- A misspelt name must not look like a participant that was stopped.
  if p_unseen is not true
     and not exists (select 1 from symphony.participant_outbox_sequences where participant_id = p_participant_id)
     and not exists (select 1 from symphony.participants where participant_id = p_participant_id) then
    raise exception 'participant % has never had a payment', p_participant_id using errcode = 'P0002';
  end if;
  insert into symphony.participants as s (participant_id, state, strict_order, changed_at)
  values (p_participant_id, coalesce(p_state, 'ACTIVE'), coalesce(p_strict_order, false), symphony.clock())
  on conflict (participant_id) do update
    set state = coalesce(p_state, s.state), strict_order = coalesce(p_strict_order, s.strict_order),
        changed_at = excluded.changed_at;
  perform symphony.note_act(p_act, p_participant_id, p_by, p_why);
end
$$;

comment on function symphony.set_participant(text, text, boolean, text, text, text, boolean) is
  'Changes the switches of a participant that are not null here, and writes the act down.';
