create or replace function symphony.uuidv7_time(p_id uuid) returns timestamptz
  language sql immutable strict parallel safe
  as $$
    select to_timestamp(('x' || substr(replace(p_id::text, '-', ''), 1, 12))::bit(48)::bigint::double precision / 1000)
  $$;

comment on function symphony.uuidv7_time(uuid) is 'When the id was made, to the millisecond.';

grant execute on function symphony.uuidv7_time(uuid)
  to symphony_readonly, symphony_auditor, symphony_operator, symphony_executor;
