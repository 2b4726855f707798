-- STABLE, because convert_to is: declared IMMUTABLE it would not be inlined into the statements that call it for each row.
create or replace function symphony.key_digest(p_instruction_id text, p_idempotency_key text) returns uuid
  language sql stable parallel safe
  as $$
    select encode(substr(sha256(convert_to(
             octet_length(p_instruction_id)::text || ':' || p_instruction_id || p_idempotency_key, 'UTF8')), 1, 16), 'hex')::uuid
  $$;

comment on function symphony.key_digest(text, text) is
  'The first 128 bits of SHA-256 over both parts of the enqueue key. The length in front makes (ab, c) and (a, bc) differ.';

grant execute on function symphony.key_digest(text, text)
  to symphony_readonly, symphony_auditor, symphony_operator, symphony_executor;
