-- Roles and the schema. No superuser is needed: the migrating login has CREATEROLE, or finds the roles made and is a member
-- of symphony_control, and has CREATE on the database, as its owner has. Where a right is missing the error names the grant.
--
-- Roles belong to the whole cluster, so a neighbour database may be creating them at this very moment: a role that appears
-- between the look and the create is what we wanted anyway.
do $$
declare
  wanted record;
begin
  for wanted in
    select *
      from (values ('symphony_control', 'nologin'),
                   ('symphony_ingest', 'login'),
                   ('symphony_executor', 'login'),
                   ('symphony_operator', 'login'),
                   ('symphony_readonly', 'login'),
                   ('symphony_auditor', 'login')) as r(name, may_log_in)
  loop
    if not exists (select 1 from pg_catalog.pg_roles where rolname = wanted.name) then
      begin
        execute format('create role %I %s', wanted.name, wanted.may_log_in);
      exception
        when duplicate_object or unique_violation then null;
        when insufficient_privilege then
          raise exception '% may not make the role %: a superuser has to run "alter role % createrole"',
                          current_user, wanted.name, quote_ident(current_user)
            using errcode = '42501';
      end;
    end if;
  end loop;
end
$$;

-- The migrating login acts as the owner and uses what belongs to it. Since PostgreSQL 16 the maker of a role may do neither
-- until it grants itself both; before that, membership was both.
do $$
declare
  v_since_16 boolean := current_setting('server_version_num')::int >= 160000;
  v_grant text := format('grant symphony_control to %I', current_user)
                  || case when v_since_16 then ' with inherit true, set true' else '' end;
begin
  if not pg_catalog.pg_has_role(current_user, 'symphony_control', case when v_since_16 then 'set' else 'member' end)
     or not pg_catalog.pg_has_role(current_user, 'symphony_control', 'usage') then
    begin
      execute v_grant;
    exception
      when insufficient_privilege then
        raise exception '% cannot act as symphony_control: a superuser has to run "%"', current_user, v_grant
          using errcode = '42501';
    end;
  end if;
  if not pg_catalog.pg_has_role(current_user, 'symphony_control', 'usage') then
    raise exception '% does not inherit from symphony_control: a superuser has to run "alter role % inherit"',
                    current_user, quote_ident(current_user)
      using errcode = '42501';
  end if;
  if not pg_catalog.has_database_privilege(current_user, current_database(), 'create') then
    raise exception '% may not own a schema in database %: its owner has to run "grant create on database % to %"',
                    current_user, current_database(), quote_ident(current_database()), quote_ident(current_user)
      using errcode = '42501';
  end if;
end
$$;

create schema if not exists symphony;

do $$
begin
  alter schema symphony owner to symphony_control;
exception
  when insufficient_privilege then
    raise exception 'schema symphony does not belong to %: its owner has to run "alter schema symphony owner to %"',
                    current_user, quote_ident(current_user)
      using errcode = '42501';
end
$$;

comment on schema symphony is
  'Payment outbox: leases, verdicts and their history. Written only through the functions in here.';

revoke all on schema symphony from public;
grant usage on schema symphony
  to symphony_ingest, symphony_executor, symphony_operator, symphony_readonly, symphony_auditor;

-- Functions are executable by PUBLIC unless one says otherwise; say it once, before the first is made.
alter default privileges for role symphony_control
  revoke execute on functions from public;
