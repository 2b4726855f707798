create or replace function symphony.revoke_adapter(p_digest bytea, p_by text, p_why text) returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  if p_digest is null or octet_length(p_digest) <> 32 then
    raise exception 'a digest must have 32 bytes' using errcode = '22023';
  end if;
  perform pg_advisory_xact_lock(hashtext('symphony.revoke_adapter'));
  if not exists (select 1 from symphony.revoked_adapters where digest = p_digest) then
    perform symphony.note_act('revoke_adapter', encode(p_digest, 'hex'), p_by, p_why);
    insert into symphony.revoked_adapters (digest, by_whom, why) values (p_digest, p_by, p_why);
    perform symphony.notify_hosts();
  end if;
end
$$;

comment on function symphony.revoke_adapter(bytea, text, text) is
  'From now on no host runs this component, neither to pay nor to ask. It cannot be undone. A second call is no error and no second act.';

grant execute on function symphony.revoke_adapter(bytea, text, text)
  to symphony_operator;
