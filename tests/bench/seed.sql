-- A large database by the shortest way: rows as the functions would have left them, written straight by the superuser.
-- Every index, constraint and trigger stays in place.
create schema bench;

-- A stretch of time and how many payments fall into it, evenly. Times are milliseconds, as in the ids.
create table bench.stretch (
  name     text primary key,
  from_ms  bigint not null,
  until_ms bigint not null,
  rows     bigint not null
);

create function bench.seed_stretch(p_name text, p_from interval, p_until interval, p_rows bigint) returns void
  language sql
  as $$
    insert into bench.stretch (name, from_ms, until_ms, rows)
    select p_name, extract(epoch from now() - p_from) * 1000, extract(epoch from now() - p_until) * 1000, p_rows
  $$;

-- The n-th id of a stretch: in order of time, as a generator makes them.
create function bench.seed_id(p_stretch bench.stretch, p_n bigint) returns uuid
  language sql immutable parallel safe
  as $$
    select (lpad(to_hex(p_stretch.from_ms + (p_stretch.until_ms - p_stretch.from_ms) * p_n / p_stretch.rows), 12, '0')
            || '70008' || lpad(to_hex(p_n), 15, '0'))::uuid
  $$;

-- Months before the first one, with everything that create_attempt_partitions gives to a month.
create function bench.seed_months(p_months int) returns void
  language plpgsql
  as $$
declare
  v_first timestamptz := (select min(from_at) from symphony.payment_outbox_partitions);
  v_month timestamptz;
  v_next timestamptz;
  v_name text;
begin
  for i in 1..p_months loop
    v_month := v_first - make_interval(months => i);
    v_next := v_first - make_interval(months => i - 1);
    v_name := 'payment_outbox_attempts_' || to_char(v_month at time zone 'UTC', 'YYYYMM');
    execute format(
      'create table symphony.%I partition of symphony.payment_outbox_attempts for values from (%L) to (%L)'
      ' with (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000)',
      v_name, symphony.uuidv7_floor(v_month), symphony.uuidv7_floor(v_next));
    execute format('alter table symphony.%I owner to symphony_control', v_name);
    execute format(
      'create trigger append_only before update or delete or truncate on symphony.%I'
      ' for each statement execute function symphony.refuse_change()', v_name);
    insert into symphony.payment_outbox_partitions (partition_name, from_at, until_at) values (v_name, v_month, v_next);
  end loop;
end
$$;

-- Payments that ended long ago. The payload is small: nobody reads it, and the disk has an end.
create function bench.seed_attempts(p_from bigint, p_until bigint) returns void
  language sql
  as $$
    insert into symphony.payment_outbox_attempts
           (outbox_id, attempt_id, lease_token, sequence_id, claimed_at, completed_at, created_at, attempt_no, latency_ms,
            state, instruction_id, participant_id, idempotency_key, rail_type, worker_id, money_moved, rail_reference,
            payload)
    select i.id, i.id, i.id, i.n / 1000 + 1, i.at, i.at, i.at, 1, 180, 'DISPATCHED',
           'instruction-' || i.n, 'participant-' || i.n % 1000, 'key-' || i.n, 'mtn', 'worker', 'yes', 'reference-' || i.n,
           '{"amount_minor": 125000, "currency": "UGX"}'
      from (select g.n, bench.seed_id(s, g.n) as id, to_timestamp(s.from_ms / 1000) as at
              from bench.stretch s, generate_series(p_from, p_until - 1) as g(n)
             where s.name = 'history') i
  $$;

create function bench.seed_records(p_from bigint, p_until bigint) returns void
  language sql
  as $$
    insert into symphony.payment_outbox_records (key_digest, outbox_id, sequence_id, request_hash, participant_id)
    select symphony.key_digest('instruction-' || g.n, 'key-' || g.n), bench.seed_id(s, g.n),
           g.n / 1000 + 1, sha256(int8send(g.n)), 'participant-' || g.n % 1000
      from bench.stretch s, generate_series(p_from, p_until - 1) as g(n)
     where s.name = 'history'
  $$;

-- Payments that wait, all due. A group shares its rails and its participants, which begin their own streams.
create function bench.seed_pending(p_stretch text, p_rails text[], p_participants int, p_payload jsonb,
                                   p_from bigint, p_until bigint) returns void
  language sql
  as $$
    with fresh as materialized (
      select bench.seed_id(s, g.n) as id, g.n / p_participants + 1 as number,
             s.name || '-' || g.n % p_participants as participant, s.name || '-instruction-' || g.n as instruction,
             'key-' || g.n as key, p_rails[1 + g.n % cardinality(p_rails)] as rail,
             to_timestamp((s.from_ms + (s.until_ms - s.from_ms) * g.n / s.rows) / 1000.0::double precision) as at
        from bench.stretch s, generate_series(p_from, p_until - 1) as g(n)
       where s.name = p_stretch
    ),
    recorded as (
      insert into symphony.payment_outbox_records (key_digest, outbox_id, sequence_id, request_hash, participant_id)
      select symphony.key_digest(f.instruction, f.key), f.id, f.number, sha256(f.key::bytea), f.participant
        from fresh f
    )
    insert into symphony.payment_outbox_pending
           (outbox_id, sequence_id, next_attempt_at, created_at, instruction_id, participant_id, idempotency_key,
            rail_type, payload)
    select f.id, f.number, f.at, f.at, f.instruction, f.participant, f.key, f.rail, p_payload
      from fresh f
  $$;

-- The next number of every stream that was written past its counter.
create function bench.seed_counters() returns void
  language sql
  as $$
    insert into symphony.participant_outbox_sequences (participant_id, next_sequence_id)
    select r.participant_id, max(r.sequence_id) + 1
      from symphony.payment_outbox_records r
     group by r.participant_id
    on conflict (participant_id) do update
      set next_sequence_id = excluded.next_sequence_id
  $$;
