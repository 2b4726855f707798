create or replace function symphony.uuidv7_floor(p_at timestamptz) returns uuid
  language sql immutable strict parallel safe
  as $$
    select (lpad(to_hex(floor(extract(epoch from p_at) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
  $$;

comment on function symphony.uuidv7_floor(timestamptz) is
  'The smallest id of that millisecond: the bound of a partition and of a search by time.';

grant execute on function symphony.uuidv7_floor(timestamptz)
  to symphony_readonly, symphony_auditor, symphony_operator, symphony_executor;
