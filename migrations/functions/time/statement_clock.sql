create or replace function symphony.statement_clock() returns timestamptz
  language sql stable parallel safe
  as $$ select pg_catalog.statement_timestamp() + symphony.clock_offset() $$;

comment on function symphony.statement_clock() is
  'When the caller''s statement began, by the same clock. Only for views: the planner can use a time that does not change.';

grant execute on function symphony.statement_clock()
  to symphony_readonly, symphony_auditor, symphony_operator, symphony_executor;
