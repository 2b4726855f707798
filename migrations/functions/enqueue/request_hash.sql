create or replace function symphony.request_hash(p_participant_id text, p_rail_type text, p_body text) returns bytea
  language sql stable parallel safe
  as $$
    select sha256(convert_to(
             octet_length(p_participant_id)::text || ':' || p_participant_id
             || octet_length(p_rail_type)::text || ':' || p_rail_type || p_body, 'UTF8'))
  $$;

comment on function symphony.request_hash(text, text, text) is
  'Equal for equal requests: participant, rail and payload. The order of keys and white space do not count, because jsonb drops both; 1.0 and 1.00 differ.';
