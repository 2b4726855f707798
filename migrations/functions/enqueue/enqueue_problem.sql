create or replace function symphony.enqueue_problem(
  p_instruction_id text, p_participant_id text, p_idempotency_key text, p_rail_type text, p_payload jsonb, p_body text)
  returns text
  language sql immutable parallel safe
  as $$
    select case
      when p_instruction_id is null or length(p_instruction_id) not between 1 and 256
        then 'instruction_id must have 1 to 256 characters'
      when p_participant_id is null or length(p_participant_id) not between 1 and 256
        then 'participant_id must have 1 to 256 characters'
      when p_idempotency_key is null or length(p_idempotency_key) not between 1 and 256
        then 'idempotency_key must have 1 to 256 characters'
      when p_rail_type is null or length(p_rail_type) not between 1 and 64
        then 'rail_type must have 1 to 64 characters'
      -- Hardly any identifier contains white space: one check of all four spares two of each.
      when p_instruction_id || p_participant_id || p_idempotency_key || p_rail_type
             ~ '[\x01-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]'
           and num_nonnulls(symphony.identifier_problem('instruction_id', p_instruction_id),
                            symphony.identifier_problem('participant_id', p_participant_id),
                            symphony.identifier_problem('idempotency_key', p_idempotency_key),
                            symphony.identifier_problem('rail_type', p_rail_type)) > 0
        then coalesce(symphony.identifier_problem('instruction_id', p_instruction_id),
                      symphony.identifier_problem('participant_id', p_participant_id),
                      symphony.identifier_problem('idempotency_key', p_idempotency_key),
                      symphony.identifier_problem('rail_type', p_rail_type))
      when p_payload is null or jsonb_typeof(p_payload) <> 'object'
        then 'payload must be a JSON object'
      when octet_length(p_body) > 65536
        then 'payload must be at most 65536 bytes, not ' || octet_length(p_body)::text
    end
  $$;

comment on function symphony.enqueue_problem(text, text, text, text, jsonb, text) is
  'What is wrong with a request, or null. Amount, currency and payee are checked by the host and the ingress.';
