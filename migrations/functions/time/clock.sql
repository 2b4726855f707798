create or replace function symphony.clock() returns timestamptz
  language sql volatile parallel safe
  as $$ select pg_catalog.clock_timestamp() + symphony.clock_offset() $$;

comment on function symphony.clock() is
  'The one clock of leases, due times and ids. Never a host''s clock, and never now(), because a transaction may be old.';

grant execute on function symphony.clock()
  to symphony_readonly, symphony_auditor, symphony_operator, symphony_executor;
