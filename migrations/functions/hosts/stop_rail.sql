create or replace function symphony.stop_rail(p_rail_type text, p_worker_id text, p_why text) returns boolean
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_lease_arguments(1, p_worker_id, 1);
  if p_rail_type is null or length(p_rail_type) not between 1 and 64 then
    raise exception 'rail_type must have 1 to 64 characters' using errcode = '22023';
  end if;
  insert into symphony.rails as r (rail_type, state, changed_at)
  values (p_rail_type, 'PAUSED', symphony.clock())
  on conflict (rail_type) do update
    set state = excluded.state, changed_at = excluded.changed_at
  where r.state <> 'PAUSED';
  if not found then
    return false;
  end if;
  perform symphony.note_act('stop_rail', p_rail_type, p_worker_id, coalesce(nullif(left(p_why, 2000), ''), 'no reason given'));
  perform symphony.notify_hosts();
  return true;
end
$$;

comment on function symphony.stop_rail(text, text, text) is
  'A host pauses a rail that only a person can repair (a wrong PIN, an adapter that alters money), until a person resumes it. False if it was paused already.';

grant execute on function symphony.stop_rail(text, text, text)
  to symphony_executor;
