-- The tables, except the partitioned history (next file).
set local role symphony_control;

-- Who takes part, and over what ----------------------------------------------------------------------------------------

create table symphony.participants (
  participant_id text collate "C" primary key check (length(participant_id) between 1 and 256),
  state          text not null default 'ACTIVE' check (state in ('ACTIVE', 'SUSPENDED')),
  strict_order   boolean not null default false,
  changed_at     timestamptz not null default symphony.clock()
);

comment on table symphony.participants is
  'Switches of the participants that have any set. One that is not listed is ACTIVE and unordered: enqueue needs no registration.';
comment on column symphony.participants.state is
  'SUSPENDED refuses new payments. Payments that were not sent are not leased; those that may have left are still asked about.';
comment on column symphony.participants.strict_order is
  'Only the oldest unfinished payment may be leased; its verdict promotes the next. Off by default: numbers are ordered, dispatch is parallel.';

-- The claim asks for every row whether its participant is held back, and the answer is nearly always no.
create index participants_held on symphony.participants (participant_id)
  where state = 'SUSPENDED' or strict_order;

create table symphony.rails (
  rail_type       text collate "C" primary key check (length(rail_type) between 1 and 64),
  state           text not null default 'ENABLED' check (state in ('ENABLED', 'PAUSED')),
  deduplicates    boolean not null default true,
  hand_over_marks boolean not null default false,
  sla_seconds     int check (sla_seconds > 0),
  rate_per_second int check (rate_per_second > 0),
  burst           int check (burst > 0),
  key_forms       text check (length(key_forms) between 1 and 4000),
  changed_at      timestamptz not null default symphony.clock(),
  check (deduplicates or hand_over_marks),
  check ((rate_per_second is null) = (burst is null))
);

comment on table symphony.rails is
  'What the database must know of a rail. A rail that is not listed is ENABLED, deduplicates and has no rate limit.';
comment on column symphony.rails.deduplicates is 'The rail recognises a key it has seen, so that sending it again is harmless.';
comment on column symphony.rails.hand_over_marks is
  'A mark is committed before the first byte leaves. Required where the rail does not deduplicate: only a lost lease without a mark may simply be tried again.';
comment on column symphony.rails.key_forms is
  'The provider of the rail, and where and in which form a request carries the key. They change only while no open payment of the rail may be known there: under another form of its key or at another provider a payment would not be recognised, and would be paid again.';
comment on column symphony.rails.sla_seconds is 'A payment open for longer stands in payments_needing_review.';

create table symphony.rail_token_buckets (
  rail_type   text collate "C" primary key references symphony.rails,
  tokens      double precision not null check (tokens >= 0),
  refilled_at timestamptz not null
) with (fillfactor = 20);

comment on table symphony.rail_token_buckets is
  'A token bucket per rail with a rate. The claim charges it, so that the rate holds for all hosts together. A host cannot give back what it does not use.';

create table symphony.rail_fronts (
  rail_type text collate "C" primary key,
  front     timestamptz not null
) with (fillfactor = 20);

comment on table symphony.rail_fronts is
  'How far the claims of a rail have come in its queue. A new payment takes its place behind this time and behind the last payment of its participant. So a participant with a huge backlog waits for itself, and the others do not wait for it.';

create table symphony.relay_hosts (
  worker_id text collate "C" primary key check (length(worker_id) between 1 and 256),
  rails     text[] not null,
  asleep    boolean not null default false,
  seen_at   timestamptz not null,
  digests   jsonb check (jsonb_typeof(digests) = 'object')
) with (fillfactor = 20);

comment on table symphony.relay_hosts is
  'Hosts that reported lately: which rails they serve (a rail nobody serves is unroutable) and whether they sleep (only then does enqueue notify).';
comment on column symphony.relay_hosts.digests is
  'Per rail, the digests of component and rail file in short, so that hosts notice when they do not run the same.';

create table symphony.clock_marks (
  one     boolean primary key default true check (one),
  seen_at timestamptz not null default symphony.clock()
) with (fillfactor = 20);

insert into symphony.clock_marks default values;

comment on table symphony.clock_marks is
  'The latest time that reconcile_clock has seen: one row. Where it lies in the future, the clock of the database went back. infinity says that there are still rows to correct.';

create table symphony.operator_acts (
  act_id  bigint generated always as identity primary key,
  acted_at timestamptz not null default symphony.clock(),
  act     text not null,
  target  text not null,
  by_whom text not null check (length(by_whom) between 1 and 256),
  why     text not null check (length(why) between 1 and 2000),
  detail  jsonb not null default '{}',
  login   text not null default session_user
);

comment on table symphony.operator_acts is
  'Every switch thrown, by a person or by a host that stops a rail: who, when, why. Append-only.';
comment on column symphony.operator_acts.by_whom is 'What the caller says. It is free text; login is what the database saw.';
comment on column symphony.operator_acts.login is 'The database login that the act came through.';

create table symphony.revoked_adapters (
  digest     bytea primary key check (octet_length(digest) = 32),
  by_whom    text not null check (length(by_whom) between 1 and 256),
  login      text not null default session_user,
  why        text not null check (length(why) between 1 and 2000),
  revoked_at timestamptz not null default symphony.clock()
);

comment on table symphony.revoked_adapters is
  'Components, by SHA-256, that no host may run any more. For good: a component that is trusted again is another one. Append-only.';

-- The queue ------------------------------------------------------------------------------------------------------------

create table symphony.participant_outbox_sequences (
  participant_id   text collate "C" primary key,
  next_sequence_id bigint not null check (next_sequence_id >= 1),
  places           jsonb not null default '{}'
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

comment on table symphony.participant_outbox_sequences is
  'The next number of each participant''s stream. A row, not a SEQUENCE: a rollback gives the number back, so that the stream has no gaps.';
comment on column symphony.participant_outbox_sequences.places is
  'Per rail, the place in the queue that was given last, in microseconds since 1970.';

-- Functions that join a list of payments with this table write `outbox_id = any (array[…])` and not `=`. After a vacuum of the
-- empty queue the planner expects one row in it, and would read all of it once for each payment of the list. An array can only
-- be looked up in the index.
create table symphony.payment_outbox_pending (
  outbox_id        uuid primary key default symphony.uuidv7(),
  sequence_id      bigint not null check (sequence_id >= 1),
  next_attempt_at  timestamptz not null default symphony.clock(),
  created_at       timestamptz not null default symphony.clock(),
  attempt_count    int not null default 0 check (attempt_count between 0 and 20),
  unsettled        boolean not null default false,
  parked           boolean not null default false,
  instruction_id   text collate "C" not null,
  participant_id   text collate "C" not null,
  idempotency_key  text collate "C" not null,
  rail_type        text collate "C" not null,
  payload          jsonb not null check (jsonb_typeof(payload) = 'object'),
  handed_over_at   timestamptz,
  claimed_at       timestamptz,
  lease_expires_at timestamptz,
  lease_token      uuid,
  claimed_by       text collate "C",
  constraint payment_outbox_pending_lease_is_whole check (
    num_nulls(claimed_by, lease_token, lease_expires_at) in (0, 3) and (lease_token is null or claimed_at is not null)),
  constraint payment_outbox_pending_unsettled_is_never_parked check (not (unsettled and parked)),
  constraint payment_outbox_pending_leased_is_never_parked check (not (parked and lease_token is not null)),
  constraint payment_outbox_pending_stream unique (participant_id, sequence_id)
) with (
  fillfactor = 45,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000,
  vacuum_truncate = off
);

comment on table symphony.payment_outbox_pending is
  'Payments without a verdict, and their leases. The lease columns come last and stand in no index: a claim then rewrites a few bytes on the same page (a HOT update), for which the fillfactor keeps half of every page free.';
comment on column symphony.payment_outbox_pending.next_attempt_at is
  'Not before this time, and by it the order of the claim. For a payment that was never tried it is its place in the queue, given at acceptance: at most that time, and before that only to keep its distance from other participants.';
comment on column symphony.payment_outbox_pending.attempt_count is 'A cache for readers. The truth is the highest attempt_no in the history.';
comment on column symphony.payment_outbox_pending.unsettled is
  'The money may have moved: the next step is a status query. Set by a lost lease, an unknown outcome, a pending answer; never parked.';
comment on column symphony.payment_outbox_pending.parked is
  'May not be leased now: its participant is suspended, or ordered strictly and this is not the head. Parked rows stand in no index of the claim.';
comment on column symphony.payment_outbox_pending.handed_over_at is
  'The hand-over mark: committed before the first byte leaves, on rails that keep such marks. One that is older than claimed_at belongs to an earlier lease.';
comment on column symphony.payment_outbox_pending.claimed_at is 'When the current lease, or the last one, was taken.';
comment on column symphony.payment_outbox_pending.lease_token is
  'Fresh and random with every claim, never a counter: a counter repeats after a failover that forgot a commit, a random token does not.';

-- Rail first: a paused rail, or one without room, is skipped as a whole whatever stands in its queue.
create index payment_outbox_pending_ready on symphony.payment_outbox_pending (rail_type, next_attempt_at, created_at)
  where not unsettled and not parked;
create index payment_outbox_pending_again on symphony.payment_outbox_pending (rail_type, next_attempt_at, created_at)
  where not unsettled and not parked and attempt_count > 0;
create index payment_outbox_pending_unsettled on symphony.payment_outbox_pending (rail_type, next_attempt_at, created_at)
  where unsettled;
create index payment_outbox_pending_parked on symphony.payment_outbox_pending (participant_id, sequence_id)
  where parked;

comment on index symphony.payment_outbox_pending_ready is 'Rows that may be disbursed, in the order of the claim.';
comment on index symphony.payment_outbox_pending_again is 'Those of them that were tried before: a look of their own finds them, however long the queue.';
comment on index symphony.payment_outbox_pending_unsettled is 'Rows that may only be asked about; they stay leasable while a rail is paused or a participant suspended.';

create table symphony.payment_outbox_claims (
  lease_expires_at timestamptz not null,
  lease_token      uuid not null,
  rail_type        text collate "C" not null,
  claimed_by       text collate "C" not null,
  claimed_at       timestamptz not null default symphony.clock(),
  outbox_ids       uuid[] not null,
  primary key (lease_expires_at, lease_token)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Ids are random: compressing them would cost time and save nothing.
alter table symphony.payment_outbox_claims alter column outbox_ids set storage external;

comment on table symphony.payment_outbox_claims is
  'The index of leases by expiry and holder: one row per claim and rail. It is written with the leases and removed after their end. An index on the lease columns would cost every claim its HOT update. The truth is the pending row: find_stray_leases adds what is missing here.';

create table symphony.payment_outbox_records (
  key_digest     uuid primary key,
  outbox_id      uuid not null,
  sequence_id    bigint not null,
  request_hash   bytea not null check (octet_length(request_hash) = 32),
  participant_id text collate "C" not null,
  constraint payment_outbox_records_stream unique (participant_id, sequence_id)
) with (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000);

comment on table symphony.payment_outbox_records is
  'The permanent record: one row per accepted payment, for ever. (instruction_id, idempotency_key) stands here as a digest, so that the unique rule outlives pending row and history and its index stays small.';

-- Rows arrive in the order of their ids, so a BRIN index finds one by its id and costs nearly nothing to write.
create index payment_outbox_records_by_id on symphony.payment_outbox_records using brin (outbox_id) with (pages_per_range = 16, autosummarize = on);

create table symphony.payment_outbox_verdicts (
  outbox_id      uuid primary key,
  state          text not null check (state in ('DISPATCHED', 'FAILED')),
  attempt_no     int not null,
  money_moved    text not null check (money_moved in ('yes', 'no', 'unknown')),
  rail_reference text,
  error_code     text,
  completed_at   timestamptz not null
);

comment on table symphony.payment_outbox_verdicts is
  'Verdicts copied out of the history before a partition of it leaves: they answer a replay for ever. Part of the permanent record.';

-- Beside the queue -----------------------------------------------------------------------------------------------------

create table symphony.payment_outbox_holds (
  outbox_id      uuid primary key,
  times          int not null default 1 check (times >= 1),
  calls          int not null check (calls between 0 and times),
  first_held_at  timestamptz not null,
  last_held_at   timestamptz not null,
  rail_type      text collate "C" not null,
  worker_id      text collate "C" not null,
  error_code     text,
  rail_code      text,
  error_message  text,
  adapter_digest bytea check (octet_length(adapter_digest) = 32)
) with (fillfactor = 70);

comment on column symphony.payment_outbox_holds.calls is
  'How many of them met the rail itself. Before the others the host held the payment back, and nothing can have left.';
comment on table symphony.payment_outbox_holds is
  'Payments that met a rail which takes none for now (our float, our credentials, its hours): how often, and what it said last. A hold is no attempt and uses up nothing. The row leaves with the month of its payment.';

create table symphony.payment_outbox_captures (
  outbox_id   uuid not null,
  name        text collate "C" not null check (length(name) between 1 and 64),
  lease_token uuid not null,
  value       text not null check (length(value) between 1 and 1024),
  captured_at timestamptz not null,
  primary key (outbox_id, name, lease_token)
);

comment on table symphony.payment_outbox_captures is
  'What a host read in a reply about a payment and writes into later requests of it: a quote, a recipient, the rail''s own id. Committed before the next request leaves. The rows leave with the month of their payment.';

create table symphony.payment_outbox_late_answers (
  outbox_id      uuid not null,
  lease_token    uuid not null,
  worker_id      text collate "C" not null,
  state          text not null check (state in ('DISPATCHED', 'FAILED', 'RETRYABLE')),
  money_moved    text not null check (money_moved in ('yes', 'no', 'unknown')),
  rail_reference text,
  rail_code      text,
  error_code     text,
  error_message  text,
  latency_ms     int,
  adapter_digest bytea check (octet_length(adapter_digest) = 32),
  recorded_at    timestamptz not null,
  of_key         boolean not null default false,
  primary key (outbox_id, lease_token)
);

create index payment_outbox_late_answers_callbacks on symphony.payment_outbox_late_answers (lease_token) where of_key;

comment on index symphony.payment_outbox_late_answers_callbacks is 'By which a callback is recognised that comes again.';
comment on table symphony.payment_outbox_late_answers is
  'What a holder heard after it lost its lease, or a rail said unasked and signed. Refused as a transition, kept as evidence: the next attempt starts from it.';
comment on column symphony.payment_outbox_late_answers.of_key is
  'It speaks of all that was sent under the key, as the answer to a question does: a signed callback. Otherwise of the attempt of its lease alone. A callback has no lease; in the place of the token stand the first bytes of its digest.';

create table symphony.payment_outbox_resolutions (
  outbox_id   uuid not null,
  finding_no  int not null check (finding_no >= 1),
  money_moved text not null check (money_moved in ('yes', 'no')),
  by_whom     text not null,
  why         text not null,
  evidence    text not null check (length(evidence) between 1 and 10000),
  resolved_at timestamptz not null,
  login       text not null default session_user,
  primary key (outbox_id, finding_no)
);

comment on table symphony.payment_outbox_resolutions is
  'A person''s finding on a payment whose outcome the rail left open. Stands beside the verdict, never over it. There is a second one only where the rail was heard to have paid after the first said no.';

create table symphony.payment_outbox_reissues (
  predecessor_id uuid primary key,
  successor_id   uuid not null unique,
  by_whom        text not null,
  why            text not null,
  reissued_at    timestamptz not null,
  login          text not null default session_user
);

comment on table symphony.payment_outbox_reissues is
  'A new try under a new key: at most one per predecessor (the primary key), and only where the money did not move.';

reset role;
