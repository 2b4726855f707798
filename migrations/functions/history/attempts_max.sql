create or replace function symphony.attempts_max() returns int
  language sql immutable parallel safe
  as $$ select 20 $$;

comment on function symphony.attempts_max() is
  'How many attempts a payment has at most. The last of them is a verdict.';
