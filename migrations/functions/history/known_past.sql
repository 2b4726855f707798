-- VOLATILE: a claim that takes a lease over writes the history first, and what it then reads must contain that row.
create or replace function symphony.known_past(p_outbox_id uuid) returns jsonb
  language sql volatile
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select jsonb_build_object(
      'attempts', coalesce((
        select jsonb_agg(jsonb_build_object(
                 'attempt_no', a.attempt_no, 'lease_token', a.lease_token, 'state', a.state,
                 'claimed_at', a.claimed_at, 'completed_at', a.completed_at, 'error_code', a.error_code,
                 'rail_code', a.rail_code, 'rail_reference', a.rail_reference,
                 'adapter_digest', encode(a.adapter_digest, 'hex'))
               order by a.attempt_no)
          from symphony.payment_outbox_attempts a
         where a.outbox_id = p_outbox_id), '[]'),
      'late_answers', coalesce((
        select jsonb_agg(jsonb_build_object(
                 'lease_token', l.lease_token, 'state', l.state, 'money_moved', l.money_moved,
                 'rail_reference', l.rail_reference, 'rail_code', l.rail_code, 'error_code', l.error_code,
                 'recorded_at', l.recorded_at, 'of_key', l.of_key)
               order by l.recorded_at)
          from symphony.payment_outbox_late_answers l
         where l.outbox_id = p_outbox_id), '[]'),
      'captured', coalesce((
        select jsonb_object_agg(c.name, c.value order by c.captured_at)
          from symphony.payment_outbox_captures c
         where c.outbox_id = p_outbox_id), '{}'))
  $$;

comment on function symphony.known_past(uuid) is
  'All that was heard about a payment so far. Whether it may be sent again depends on all of it, not on the last attempt.';
