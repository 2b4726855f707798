create or replace function symphony.clock_offset() returns interval
  language sql stable parallel safe
  as $$ select interval '0' $$;

comment on function symphony.clock_offset() is
  'Always zero. Tests replace this one function to move the clock of the whole outbox.';

grant execute on function symphony.clock_offset()
  to symphony_readonly, symphony_auditor, symphony_operator, symphony_executor;
