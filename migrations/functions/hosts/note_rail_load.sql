create or replace function symphony.note_rail_load(
  p_worker_id text, p_rail_type text, p_outcome text, p_component_digest bytea, p_rail_digest bytea, p_detail text)
  returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_lease_arguments(1, p_worker_id, 1);
  if p_rail_type is null or length(p_rail_type) not between 1 and 64 then
    raise exception 'rail_type must have 1 to 64 characters' using errcode = '22023';
  end if;
  if p_outcome is null or p_outcome not in ('LOADED', 'REFUSED', 'REVOKED') then
    raise exception 'outcome must be LOADED, REFUSED or REVOKED, not %', coalesce(p_outcome, 'null') using errcode = '22023';
  end if;
  if octet_length(p_component_digest) <> 32 or octet_length(p_rail_digest) <> 32 then
    raise exception 'a digest must have 32 bytes' using errcode = '22023';
  end if;
  perform symphony.note_act('load_rail', p_rail_type, p_worker_id,
                            coalesce(nullif(left(p_detail, 2000), ''), lower(p_outcome)),
                            jsonb_strip_nulls(jsonb_build_object(
                              'outcome', p_outcome, 'component_digest', encode(p_component_digest, 'hex'),
                              'rail_digest', encode(p_rail_digest, 'hex'))));
end
$$;

comment on function symphony.note_rail_load(text, text, text, bytea, bytea, text) is
  'A host took a rail into service, refused it, or dropped it because its component was revoked: one act, with the digests of component and rail file.';

grant execute on function symphony.note_rail_load(text, text, text, bytea, bytea, text)
  to symphony_executor;
