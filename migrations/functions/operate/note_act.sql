create or replace function symphony.note_act(p_act text, p_target text, p_by text, p_why text, p_detail jsonb default '{}')
  returns void
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  if p_by is null or length(p_by) not between 1 and 256 or p_why is null or length(p_why) not between 1 and 2000 then
    raise exception 'say who (1 to 256 characters) and why (1 to 2000 characters)' using errcode = '22023';
  end if;
  insert into symphony.operator_acts (act, target, by_whom, why, detail)
  values (p_act, p_target, p_by, p_why, p_detail);
end
$$;

comment on function symphony.note_act(text, text, text, text, jsonb) is
  'Writes down an act: what was done to what, by whom and why. Refuses one without a name or a reason.';
