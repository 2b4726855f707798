create or replace function symphony.called_payment(p_rail_type text, p_outbox_id uuid)
  returns table (instruction_id text, participant_id text, sequence_id bigint, payload jsonb, state text, money_moved text)
  language sql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select p.instruction_id, p.participant_id, p.sequence_id, p.payload, 'PENDING', 'unknown'
      from symphony.payment_outbox_pending p
     where p.outbox_id = p_outbox_id and p.rail_type = p_rail_type
    union all
    select a.instruction_id, a.participant_id, a.sequence_id, a.payload, a.state::text, a.money_moved
      from symphony.payment_outbox_attempts a
     where a.outbox_id = p_outbox_id and a.rail_type = p_rail_type and a.state in ('DISPATCHED', 'FAILED')
       and a.payload is not null
  $$;

comment on function symphony.called_payment(text, uuid) is
  'A payment that a callback names, with its state.';

grant execute on function symphony.called_payment(text, uuid)
  to symphony_executor;
