create or replace function symphony.complete_outbox_attempt(
  p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_state text, p_rail_reference text default null,
  p_rail_code text default null, p_error_code text default null, p_error_message text default null,
  p_latency_ms int default null, p_retry_delay_seconds double precision default 1,
  p_money_moved text default null, p_unsettled boolean default null, p_adapter_digest bytea default null,
  p_rail_digest bytea default null, p_request_digest bytea default null, p_reply_digest bytea default null,
  p_witness text default null, p_facts jsonb default null)
  returns table (attempt_no int, state text)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_answer record;
begin
  select * into v_answer
    from symphony.complete_outbox_batch(
           p_worker_id, array[p_outbox_id], array[p_lease_token], array[p_state], array[p_rail_reference],
           array[p_rail_code], array[p_error_code], array[p_error_message], array[p_latency_ms],
           array[p_retry_delay_seconds], array[p_money_moved], array[p_unsettled], array[p_adapter_digest],
           array[p_rail_digest], array[p_request_digest], array[p_reply_digest], array[p_witness], array[p_facts]);
  if v_answer.refusal is not null then
    raise exception '%', v_answer.refusal_detail using errcode = v_answer.refusal;
  end if;
  return query select v_answer.attempt_no, v_answer.state;
end
$$;

comment on function symphony.complete_outbox_attempt(uuid, uuid, text, text, text, text, text, text, int, double precision, text, boolean, bytea, bytea, bytea, bytea, text, jsonb) is
  'Ends one lease with its outcome, or raises P7002 when it is no longer held. FAILED says "money did not move" only where the caller says so; RETRYABLE keeps the past unsettled unless told otherwise.';

grant execute on function symphony.complete_outbox_attempt(uuid, uuid, text, text, text, text, text, text, int, double precision, text, boolean, bytea, bytea, bytea, bytea, text, jsonb)
  to symphony_executor;

-- A plain literal as state resolves to the text version, so that a call is never ambiguous.
create or replace function symphony.complete_outbox_attempt(
  p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_state symphony.outbox_attempt_state,
  p_rail_reference text default null, p_rail_code text default null, p_error_code text default null,
  p_error_message text default null, p_latency_ms int default null, p_retry_delay_seconds double precision default 1,
  p_money_moved text default null, p_unsettled boolean default null, p_adapter_digest bytea default null,
  p_rail_digest bytea default null, p_request_digest bytea default null, p_reply_digest bytea default null,
  p_witness text default null, p_facts jsonb default null)
  returns table (attempt_no int, state text)
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select *
      from symphony.complete_outbox_attempt(
             p_outbox_id, p_lease_token, p_worker_id, p_state::text, p_rail_reference, p_rail_code, p_error_code,
             p_error_message, p_latency_ms, p_retry_delay_seconds, p_money_moved, p_unsettled, p_adapter_digest,
             p_rail_digest, p_request_digest, p_reply_digest, p_witness, p_facts)
  $$;

comment on function symphony.complete_outbox_attempt(uuid, uuid, text, symphony.outbox_attempt_state, text, text, text, text, int, double precision, text, boolean, bytea, bytea, bytea, bytea, text, jsonb) is
  'The same, for callers that pass the state as its enum.';

grant execute on function symphony.complete_outbox_attempt(uuid, uuid, text, symphony.outbox_attempt_state, text, text, text, text, int, double precision, text, boolean, bytea, bytea, bytea, bytea, text, jsonb)
  to symphony_executor;
