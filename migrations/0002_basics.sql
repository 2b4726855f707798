-- What all else stands on: one clock, one kind of id, and what every function asks of its caller.
set local role symphony_control;

create function symphony.clock_offset() returns interval
  language sql stable parallel safe
  as $$ select interval '0' $$;

comment on function symphony.clock_offset() is
  'Always zero. Tests replace this one function to move the clock of the whole outbox.';

create function symphony.clock() returns timestamptz
  language sql volatile parallel safe
  as $$ select pg_catalog.clock_timestamp() + symphony.clock_offset() $$;

comment on function symphony.clock() is
  'The only time that leases, due times and ids are made from. Never a host''s clock, never now(): a transaction may be old.';

create function symphony.statement_clock() returns timestamptz
  language sql stable parallel safe
  as $$ select pg_catalog.statement_timestamp() + symphony.clock_offset() $$;

comment on function symphony.statement_clock() is
  'When the caller''s statement began, by the same clock. For views alone: a time that stands still lets the planner look into them.';

-- Ids carry their time, so that attempts can be partitioned by id and both unique rules stay global.
do $$
begin
  if current_setting('server_version_num')::int >= 180000 then
    create function symphony.uuidv7() returns uuid
      language sql volatile parallel safe
      as $f$ select pg_catalog.uuidv7(symphony.clock_offset()) $f$;
  else
    -- 48 bits of milliseconds, version 7, 12 bits of the millisecond's fraction, variant, 62 random bits:
    -- the layout of the server's own function where there is one. One expression that reads the clock once, for only
    -- that is inlined: the microseconds times 4096 / 1000 are both numbers, one behind the other.
    create function symphony.uuidv7() returns uuid
      language sql volatile parallel safe
      as $f$
        select (overlay(lpad(to_hex((extract(epoch from symphony.clock()) * 1000000)::bigint * 512 / 125), 15, '0')
                        placing '7' from 13 for 0)
                || substr(pg_catalog.gen_random_uuid()::text, 20))::uuid
      $f$;
  end if;
end
$$;

comment on function symphony.uuidv7() is
  'A time-ordered id made from symphony.clock(): the server''s own generator on PostgreSQL 18, the same layout before it.';

create function symphony.uuidv7_floor(p_at timestamptz) returns uuid
  language sql immutable strict parallel safe
  as $$
    select (lpad(to_hex(floor(extract(epoch from p_at) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
  $$;

comment on function symphony.uuidv7_floor(timestamptz) is
  'The smallest id of that millisecond: the bound of a partition and of a search by time.';

create function symphony.uuidv7_time(p_id uuid) returns timestamptz
  language sql immutable strict parallel safe
  as $$
    select to_timestamp(('x' || substr(replace(p_id::text, '-', ''), 1, 12))::bit(48)::bigint::double precision / 1000)
  $$;

comment on function symphony.uuidv7_time(uuid) is 'When the id was made, to the millisecond.';

-- STABLE like convert_to inside, or they would not be inlined into the statements that call them row by row.
create function symphony.key_digest(p_instruction_id text, p_idempotency_key text) returns uuid
  language sql stable parallel safe
  as $$
    select encode(substr(sha256(convert_to(
             octet_length(p_instruction_id)::text || ':' || p_instruction_id || p_idempotency_key, 'UTF8')), 1, 16), 'hex')::uuid
  $$;

comment on function symphony.key_digest(text, text) is
  'The first 128 bits of SHA-256 over both parts of the enqueue key. The length in front keeps (ab, c) and (a, bc) apart.';

create function symphony.request_hash(p_participant_id text, p_rail_type text, p_body text) returns bytea
  language sql stable parallel safe
  as $$
    select sha256(convert_to(
             octet_length(p_participant_id)::text || ':' || p_participant_id
             || octet_length(p_rail_type)::text || ':' || p_rail_type || p_body, 'UTF8'))
  $$;

comment on function symphony.request_hash(text, text, text) is
  'What makes two requests the same: participant, rail and payload. Key order and white space do not count, jsonb has none; 1.0 and 1.00 differ.';

create function symphony.check_lease_arguments(
  p_batch_size int, p_worker_id text, p_lease_seconds double precision) returns boolean
  language plpgsql immutable
  set search_path = pg_catalog, pg_temp
  as $$
begin
  if p_batch_size is null or p_batch_size not between 1 and 10000 then
    raise exception 'batch_size must be between 1 and 10000, not %', coalesce(p_batch_size::text, 'null')
      using errcode = '22023';
  end if;
  if p_worker_id is null or length(p_worker_id) not between 1 and 256 then
    raise exception 'worker_id must have 1 to 256 characters' using errcode = '22023';
  end if;
  if p_lease_seconds is null or not (p_lease_seconds between 1 and 3600) then
    raise exception 'lease_seconds must be between 1 and 3600, not %', coalesce(p_lease_seconds::text, 'null')
      using errcode = '22023';
  end if;
  return true;
end
$$;

comment on function symphony.check_lease_arguments(int, text, double precision) is
  'What all functions of a holder ask of their caller: a batch that fits, a name, a lease of sensible length. True, or an error.';

create function symphony.check_held(p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[]) returns void
  language plpgsql immutable
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_lease_arguments(cardinality(p_outbox_ids), p_worker_id, 1);
  if p_lease_tokens is null or cardinality(p_lease_tokens) <> cardinality(p_outbox_ids) then
    raise exception 'ids and tokens must be arrays of one length' using errcode = '22023';
  end if;
end
$$;

comment on function symphony.check_held(text, uuid[], uuid[]) is 'The same for calls that name leases.';

create function symphony.refilled(
  p_tokens double precision, p_refilled_at timestamptz, p_now timestamptz, p_rate_per_second int, p_burst int)
  returns double precision
  language sql immutable parallel safe
  as $$
    select least(p_burst, p_tokens + p_rate_per_second * case
             when p_refilled_at > p_now + interval '1 second' then 1
             else greatest(0, extract(epoch from p_now - p_refilled_at)::double precision) end)
  $$;

comment on function symphony.refilled(double precision, timestamptz, timestamptz, int, int) is
  'What a bucket holds now. Filled at a time that is still to come, it gets a second''s worth: the clock went back, and nobody knows how long ago it was.';

reset role;
