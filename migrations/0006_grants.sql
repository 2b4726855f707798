-- Who may read which table. Nobody but the owner writes one: functions are the only doors, and each says in its file for whom.
-- The tool's own table came first, made by whoever migrates.
alter table if exists symphony.schema_migrations owner to symphony_control;

set local role symphony_control;

grant select on
  symphony.payment_outbox_pending, symphony.payment_outbox_attempts, symphony.payment_outbox_records,
  symphony.payment_outbox_verdicts, symphony.payment_outbox_late_answers, symphony.payment_outbox_resolutions,
  symphony.payment_outbox_reissues, symphony.payment_outbox_holds, symphony.payment_outbox_captures,
  symphony.payment_outbox_partitions, symphony.participants, symphony.rails, symphony.rail_fronts, symphony.relay_hosts,
  symphony.operator_acts, symphony.revoked_adapters
  to symphony_readonly, symphony_auditor;

grant select on symphony.schema_functions
  to symphony_readonly, symphony_auditor, symphony_executor, symphony_operator;

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
