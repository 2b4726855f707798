-- Who may do what. Nobody but the owner writes a table; functions are the only doors, each opened for one role.
-- The tool's own table came first, made by whoever migrates.
alter table if exists symphony.schema_migrations owner to symphony_control;

set local role symphony_control;

grant execute on function
  symphony.enqueue_payment_outbox(text, text, text, text, jsonb),
  symphony.enqueue_payment_outbox_batch(text[], text[], text[], text[], jsonb[])
  to symphony_ingest;

grant execute on function
  symphony.claim_outbox_batch(int, text, double precision, text[], int[], double precision[], timestamptz[], int, text[]),
  symphony.complete_outbox_attempt(uuid, uuid, text, text, text, text, text, text, int, double precision, text, boolean, bytea, bytea, bytea, bytea, text, jsonb),
  symphony.complete_outbox_attempt(uuid, uuid, text, symphony.outbox_attempt_state, text, text, text, text, int, double precision, text, boolean, bytea, bytea, bytea, bytea, text, jsonb),
  symphony.complete_outbox_batch(text, uuid[], uuid[], text[], text[], text[], text[], text[], int[], double precision[], text[], boolean[], bytea[], bytea[], bytea[], bytea[], text[], jsonb[], text[]),
  symphony.record_late_answer(uuid, uuid, text, text, text, text, text, text, int, text, bytea, boolean),
  symphony.repair_expired_leases(int, text),
  symphony.sweep_leases(text, int, int),
  symphony.reconcile_clock(int),
  symphony.extend_outbox_leases(text, uuid[], uuid[], double precision),
  symphony.release_outbox_leases(text, uuid[], uuid[]),
  symphony.mark_handed_over(text, uuid[], uuid[]),
  symphony.keep_captured(text, uuid[], uuid[], jsonb[], boolean),
  symphony.hold_outbox_leases(text, uuid[], uuid[], double precision[], text[], text[], text[], bytea[]),
  symphony.hand_back_unknown_leases(text, uuid[]),
  symphony.hint_payment(text, uuid, boolean),
  symphony.callback_is_known(uuid),
  symphony.called_payment(text, uuid),
  symphony.payments_of_key(text, text),
  symphony.next_due_at(text[]),
  symphony.stopped(),
  symphony.stop_rail(text, text, text),
  symphony.note_rail_load(text, text, text, bytea, bytea, text),
  symphony.report_host(text, text[], boolean, jsonb),
  symphony.other_hosts(text),
  symphony.retire_host(text),
  symphony.reconcile_parking(int),
  symphony.create_attempt_partitions(int)
  to symphony_executor;

grant execute on function
  symphony.pause_rail(text, text, text),
  symphony.resume_rail(text, text, text),
  symphony.configure_rail(text, boolean, boolean, int, int, int, text, text, text),
  symphony.revoke_adapter(bytea, text, text),
  symphony.suspend_participant(text, text, text, boolean),
  symphony.reinstate_participant(text, text, text),
  symphony.set_strict_order(text, boolean, text, text, boolean),
  symphony.reconcile_parking(int),
  symphony.reissue_payment(uuid, text, text, text, text, jsonb),
  symphony.resolve_payment(uuid, text, text, text, text),
  symphony.cancel_payment(uuid, text, text)
  to symphony_operator;

grant execute on function symphony.count_queue() to symphony_readonly;
grant execute on function symphony.history_days_left() to symphony_readonly, symphony_executor;
grant execute on function symphony.sequence_gaps_between(text, timestamptz, timestamptz) to symphony_readonly, symphony_auditor;

-- The views call these with the reader's rights.
grant execute on function
  symphony.clock(), symphony.clock_offset(), symphony.statement_clock(), symphony.uuidv7_floor(timestamptz), symphony.uuidv7_time(uuid),
  symphony.key_digest(text, text)
  to symphony_readonly, symphony_auditor, symphony_operator, symphony_executor;

grant select on
  symphony.payment_outbox_pending, symphony.payment_outbox_attempts, symphony.payment_outbox_records,
  symphony.payment_outbox_verdicts, symphony.payment_outbox_late_answers, symphony.payment_outbox_resolutions,
  symphony.payment_outbox_reissues, symphony.payment_outbox_holds, symphony.payment_outbox_captures, symphony.payment_outbox_partitions, symphony.participants,
  symphony.rails, symphony.rail_fronts, symphony.relay_hosts, symphony.operator_acts, symphony.revoked_adapters,
  symphony.outbox_status, symphony.payments, symphony.payment_timeline, symphony.payments_needing_review,
  symphony.blocked_streams, symphony.sequence_gaps
  to symphony_readonly, symphony_auditor;

-- Whoever works with the schema may see whether it is the one that it was built for. The table is made by the tool, and
-- where somebody applies these files by hand it may be missing.
do $$
begin
  if to_regclass('symphony.schema_migrations') is not null then
    grant select on symphony.schema_migrations to symphony_readonly, symphony_executor, symphony_operator;
  end if;
end
$$;

reset role;
