-- The history of attempts: append-only, partitioned by id, the system of record.
set local role symphony_control;

create type symphony.outbox_attempt_state as enum ('DISPATCHED', 'RETRYABLE', 'FAILED', 'ZOMBIE_REQUEUE');

create table symphony.payment_outbox_attempts (
  outbox_id       uuid not null,
  attempt_id      uuid not null default symphony.uuidv7(),
  lease_token     uuid not null,
  sequence_id     bigint not null,
  claimed_at      timestamptz not null default symphony.clock(),
  completed_at    timestamptz not null default symphony.clock(),
  created_at      timestamptz not null default symphony.clock(),
  attempt_no      int not null check (attempt_no between 1 and 20),
  latency_ms      int,
  state           symphony.outbox_attempt_state not null,
  by_holder       boolean not null default true,
  instruction_id  text collate "C" not null,
  participant_id  text collate "C" not null,
  idempotency_key text collate "C" not null,
  rail_type       text collate "C" not null,
  worker_id       text collate "C" not null,
  money_moved     text collate "C" not null check (money_moved in ('yes', 'no', 'unknown')),
  rail_reference  text,
  rail_code       text,
  error_code      text,
  error_message   text,
  adapter_digest  bytea check (octet_length(adapter_digest) = 32),
  rail_digest     bytea check (octet_length(rail_digest) = 32),
  request_digest  bytea check (octet_length(request_digest) = 32),
  reply_digest    bytea check (octet_length(reply_digest) = 32),
  witness         text check (length(witness) <= 1000),
  facts           jsonb check (jsonb_typeof(facts) = 'object'),
  key_prefix      text collate "C" check (key_prefix ~ '^[0-9a-f]{12}$'),
  payload         jsonb,
  constraint payment_outbox_attempts_success_moved_money check (state <> 'DISPATCHED' or money_moved = 'yes'),
  constraint payment_outbox_attempts_failure_moved_none check (state <> 'FAILED' or money_moved <> 'yes'),
  constraint payment_outbox_attempts_verdict_keeps_payload check ((state in ('DISPATCHED', 'FAILED')) = (payload is not null)),
  constraint payment_outbox_attempts_numbered unique (outbox_id, attempt_no)
) partition by range (outbox_id);

comment on table symphony.payment_outbox_attempts is
  'What happened, one row per attempt, never changed. Partitioned by the time inside outbox_id: all attempts of a payment share a partition, both unique rules hold globally, and old months leave by detaching.';
comment on column symphony.payment_outbox_attempts.attempt_id is
  'Names the attempt: a version-7 id. Attempts that were written together differ in the last five digits. It has no index: in a partitioned table a unique one would have to contain outbox_id, and (outbox_id, attempt_no) is unique already.';
comment on column symphony.payment_outbox_attempts.money_moved is
  'What is known of the payment after this attempt. Release and reissue need a plain no.';
comment on column symphony.payment_outbox_attempts.adapter_digest is 'SHA-256 of the component that spoke.';
comment on column symphony.payment_outbox_attempts.rail_digest is 'SHA-256 of the rail''s file by which the request was written and the reply read.';
comment on column symphony.payment_outbox_attempts.request_digest is 'SHA-256 of the last request of the operation as the rail''s file writes it, with a name in the place of each secret: first line, headers, an empty line, body.';
comment on column symphony.payment_outbox_attempts.reply_digest is 'SHA-256 of the whole reply to it, without secrets: status, headers, an empty line, body.';
comment on column symphony.payment_outbox_attempts.witness is
  'What the host saw of each request, in order: step, what left (nothing, headers, body), the status of the reply.';
comment on column symphony.payment_outbox_attempts.facts is
  'What the host read in the reply: the class that the code table made of it, the facts by name, what the rail repeats and is not as instructed, whether the adapter vetoed.';
comment on column symphony.payment_outbox_attempts.key_prefix is
  'The first twelve hexadecimal digits of the payment''s key, on rails that name a payment by its key when they call back; null on all others.';
comment on column symphony.payment_outbox_attempts.lease_token is
  'The lease that ended with this: a completion sent twice is recognised by it.';
comment on column symphony.payment_outbox_attempts.by_holder is
  'False where the lease ran out and was ended for its holder, who may still have an answer to record as late.';
comment on column symphony.payment_outbox_attempts.payload is
  'With the verdict only, when the pending row goes: every payment keeps its instruction as long as its history.';

create unique index payment_outbox_attempts_one_terminal_per_outbox
  on symphony.payment_outbox_attempts (outbox_id)
  where state in ('DISPATCHED', 'FAILED');

comment on index symphony.payment_outbox_attempts_one_terminal_per_outbox is
  'At most one verdict per payment. The fence in the completing functions comes first; this is the backstop that holds even if they are wrong.';

create index payment_outbox_attempts_failed
  on symphony.payment_outbox_attempts (outbox_id)
  where state = 'FAILED';

comment on index symphony.payment_outbox_attempts_failed is 'Dead letters and review cases, without reading the successes.';

create index payment_outbox_attempts_key_prefix
  on symphony.payment_outbox_attempts (key_prefix)
  where key_prefix is not null;

comment on index symphony.payment_outbox_attempts_key_prefix is
  'By which a callback finds a payment that has its verdict.';

create index payment_outbox_attempts_echo_differs
  on symphony.payment_outbox_attempts (outbox_id)
  where error_code = 'ECHO_DIFFERS';

comment on index symphony.payment_outbox_attempts_echo_differs is
  'Successes that name another amount or payee than instructed: a person looks at them.';

-- Statement triggers: they also answer a change that would hit no row. They are not inherited, so that each
-- partition gets its own when it is made.
create trigger append_only
  before update or delete or truncate on symphony.payment_outbox_attempts
  for each statement execute function symphony.refuse_change();
create trigger append_only
  before update or delete or truncate on symphony.payment_outbox_records
  for each statement execute function symphony.refuse_change();
create trigger append_only
  before update or delete or truncate on symphony.payment_outbox_verdicts
  for each statement execute function symphony.refuse_change();
create trigger append_only
  before update or delete or truncate on symphony.payment_outbox_late_answers
  for each statement execute function symphony.refuse_change();
create trigger append_only
  before update or delete or truncate on symphony.payment_outbox_resolutions
  for each statement execute function symphony.refuse_change();
create trigger append_only
  before update or delete or truncate on symphony.payment_outbox_reissues
  for each statement execute function symphony.refuse_change();
create trigger append_only
  before update or delete or truncate on symphony.operator_acts
  for each statement execute function symphony.refuse_change();
create trigger append_only
  before update or delete or truncate on symphony.revoked_adapters
  for each statement execute function symphony.refuse_change();

create table symphony.payment_outbox_partitions (
  partition_name    text collate "C" primary key,
  from_at           timestamptz not null,
  until_at          timestamptz not null check (until_at > from_at),
  verdicts_copied   bigint not null default 0,
  copied_at         timestamptz,
  exported_rows     bigint,
  exported_sha256   text check (exported_sha256 ~ '^[0-9a-f]{64}$'),
  exported_at       timestamptz,
  detached_at       timestamptz,
  dropped_at        timestamptz,
  check (detached_at is null or (copied_at is not null and exported_at is not null)),
  check (dropped_at is null or detached_at is not null)
);

comment on table symphony.payment_outbox_partitions is
  'The months of the history: which exist, and how far each one is on its way out. Enqueue refuses an id that none of them would take.';

reset role;
