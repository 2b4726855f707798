create or replace function symphony.create_attempt_partitions(p_months_ahead int default 3) returns int
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_month timestamptz := coalesce(
    (select max(until_at) from symphony.payment_outbox_partitions),
    date_trunc('month', symphony.clock() - interval '1 day', 'UTC'));
  v_until timestamptz := date_trunc('month', symphony.clock(), 'UTC') + make_interval(months => p_months_ahead + 1);
  v_next timestamptz;
  v_name text;
  v_made int := 0;
begin
  if p_months_ahead is null or p_months_ahead not between 1 and 120 then
    raise exception 'p_months_ahead must be between 1 and 120, not %', coalesce(p_months_ahead::text, 'null')
      using errcode = '22023';
  end if;

  -- One call at a time; whoever waited here sees the other's partitions below.
  perform pg_advisory_xact_lock(hashtext('symphony.create_attempt_partitions'));
  v_month := coalesce((select max(until_at) from symphony.payment_outbox_partitions), v_month);

  while v_month < v_until loop
    v_next := date_trunc('month', v_month + interval '32 days', 'UTC');
    v_name := 'payment_outbox_attempts_' || to_char(v_month at time zone 'UTC', 'YYYYMM');
    -- Made apart and then attached: PARTITION OF would wait for readers of the history, and all others behind it.
    execute format(
      'create table symphony.%I (like symphony.payment_outbox_attempts including defaults including constraints)'
      ' with (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000)', v_name);
    execute format(
      'alter table symphony.payment_outbox_attempts attach partition symphony.%I for values from (%L) to (%L)',
      v_name, symphony.uuidv7_floor(v_month), symphony.uuidv7_floor(v_next));
    execute format('alter table symphony.%I owner to symphony_control', v_name);
    execute format(
      'create trigger append_only before update or delete or truncate on symphony.%I'
      ' for each statement execute function symphony.refuse_change()', v_name);
    execute format('grant select on symphony.%I to symphony_readonly, symphony_auditor', v_name);
    -- An error names the index of the partition: it gets the same ending as its parent.
    execute (
      select format('alter index symphony.%I rename to %I', c.relname, v_name || '_one_terminal_per_outbox')
        from pg_inherits i
        join pg_index x on x.indexrelid = i.inhrelid
        join pg_class c on c.oid = i.inhrelid
       where i.inhparent = 'symphony.payment_outbox_attempts_one_terminal_per_outbox'::regclass
         and x.indrelid = format('symphony.%I', v_name)::regclass);
    insert into symphony.payment_outbox_partitions (partition_name, from_at, until_at)
    values (v_name, v_month, v_next);
    v_made := v_made + 1;
    v_month := v_next;
  end loop;
  return v_made;
end
$$;

comment on function symphony.create_attempt_partitions(int) is
  'Makes every missing month up to the given number ahead. There is no DEFAULT partition: it would block detaching without a lock.';

grant execute on function symphony.create_attempt_partitions(int)
  to symphony_executor;
