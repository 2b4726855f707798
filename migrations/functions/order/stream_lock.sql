-- Whoever parks or promotes rows of a strictly ordered stream holds its lock until the transaction ends. Hosts take it in
-- short transactions, and so does a cancellation. Enqueue never takes it, so that a caller's long transaction cannot delay
-- a verdict. The table's oid, a constant of the plan, keeps the locks of two schemas in one database apart.
create or replace function symphony.stream_lock(p_participant_id text) returns bigint
  language sql immutable parallel safe
  as $$ select hashtextextended(p_participant_id, 'symphony.participants'::regclass::oid::bigint) $$;

comment on function symphony.stream_lock(text) is
  'The key of the advisory lock that keeps one strictly ordered stream to one transaction at a time.';
