-- Roles and the schema. Roles belong to the whole cluster, so a neighbour database may be creating them at this very
-- moment: a role that appears between the look and the create is what we wanted anyway.
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
      end;
    end if;
  end loop;

  -- A migrating login that is no superuser has to be able to act as the owner.
  if not pg_catalog.pg_has_role(current_user, 'symphony_control', 'member') then
    execute format('grant symphony_control to %I', current_user);
  end if;
end
$$;

create schema if not exists symphony;
alter schema symphony owner to symphony_control;

comment on schema symphony is
  'Payment outbox: leases, verdicts and their history. Written only through the functions in here.';

revoke all on schema symphony from public;
grant usage on schema symphony
  to symphony_ingest, symphony_executor, symphony_operator, symphony_readonly, symphony_auditor;

-- Functions are executable by PUBLIC unless one says otherwise; say it once, before the first is made.
alter default privileges for role symphony_control
  revoke execute on functions from public;
