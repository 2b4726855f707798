-- How old months leave: exported, verdicts copied to the permanent record, detached, dropped. The caller runs these in
-- that order and detaches between them: DETACH CONCURRENTLY, which blocks no verdict, cannot run inside a function.
set local role symphony_control;

create function symphony.retention_obstacle(p_partition_name text, p_keep_days int) returns text
  language plpgsql stable
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_part symphony.payment_outbox_partitions;
  v_from uuid;
  v_until uuid;
begin
  select * into v_part from symphony.payment_outbox_partitions where partition_name = p_partition_name;
  if not found then
    return format('there is no partition %s', p_partition_name);
  end if;
  if p_keep_days is null or p_keep_days < 7 then
    return 'attempts are kept for 7 days at least';
  end if;
  if v_part.until_at > symphony.clock() - make_interval(days => p_keep_days) then
    return format('%s holds payments younger than %s days', p_partition_name, p_keep_days);
  end if;
  v_from := symphony.uuidv7_floor(v_part.from_at);
  v_until := symphony.uuidv7_floor(v_part.until_at);
  if exists (select 1 from symphony.payment_outbox_pending where outbox_id >= v_from and outbox_id < v_until) then
    return format('%s holds a payment that is still pending', p_partition_name);
  end if;
  if exists (select 1 from symphony.payments_needing_review where outbox_id >= v_from and outbox_id < v_until) then
    return format('%s holds an open review case', p_partition_name);
  end if;
  return null;
end
$$;

comment on function symphony.retention_obstacle(text, int) is 'Why a partition must stay, or null.';

create function symphony.note_export(p_partition_name text, p_rows bigint, p_sha256 text) returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_part symphony.payment_outbox_partitions;
  v_rows bigint;
begin
  select * into v_part from symphony.payment_outbox_partitions
   where partition_name = p_partition_name and detached_at is null;
  if not found then
    raise exception 'there is no attached partition %', p_partition_name using errcode = 'P7009';
  end if;
  select count(*) into v_rows
    from symphony.payment_outbox_attempts a
   where a.outbox_id >= symphony.uuidv7_floor(v_part.from_at) and a.outbox_id < symphony.uuidv7_floor(v_part.until_at);
  if p_sha256 is null or p_sha256 !~ '^[0-9a-f]{64}$' then
    raise exception 'an export needs the SHA-256 of its file, 64 hex digits' using errcode = '22023';
  end if;
  if v_rows is distinct from p_rows then
    raise exception '% has % rows, the export %', p_partition_name, v_rows, p_rows using errcode = 'P7009';
  end if;
  update symphony.payment_outbox_partitions
     set exported_rows = p_rows, exported_sha256 = p_sha256, exported_at = symphony.clock()
   where partition_name = p_partition_name;
end
$$;

comment on function symphony.note_export(text, bigint, text) is
  'Records that a month has been exported: how many rows, and the SHA-256 of the file. Refused if the counts differ.';

create function symphony.copy_verdicts(p_partition_name text, p_keep_days int, p_limit int default 10000) returns int
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_part symphony.payment_outbox_partitions;
  v_obstacle text := symphony.retention_obstacle(p_partition_name, p_keep_days);
  v_after uuid;
  v_copied int;
begin
  perform symphony.check_lease_arguments(p_limit, 'retention', 1);
  if v_obstacle is not null then
    raise exception '%', v_obstacle using errcode = 'P7009';
  end if;
  select * into v_part from symphony.payment_outbox_partitions where partition_name = p_partition_name for update;
  -- Copied in the order of ids: what is there already says where to go on.
  v_after := coalesce(
    (select v.outbox_id
       from symphony.payment_outbox_verdicts v
      where v.outbox_id >= symphony.uuidv7_floor(v_part.from_at) and v.outbox_id < symphony.uuidv7_floor(v_part.until_at)
      order by v.outbox_id desc
      limit 1),
    symphony.uuidv7_floor(v_part.from_at));
  insert into symphony.payment_outbox_verdicts
         (outbox_id, state, attempt_no, money_moved, rail_reference, error_code, completed_at)
  select a.outbox_id, a.state::text, a.attempt_no, a.money_moved, a.rail_reference, a.error_code, a.completed_at
    from symphony.payment_outbox_attempts a
   where a.outbox_id > v_after and a.outbox_id < symphony.uuidv7_floor(v_part.until_at)
     and a.state in ('DISPATCHED', 'FAILED')
   order by a.outbox_id
   limit p_limit;
  get diagnostics v_copied = row_count;
  update symphony.payment_outbox_partitions
     set verdicts_copied = verdicts_copied + v_copied,
         copied_at = case when v_copied < p_limit then symphony.clock() end
   where partition_name = p_partition_name;
  return v_copied;
end
$$;

comment on function symphony.copy_verdicts(text, int, int) is
  'Copies a bounded number of verdicts to the permanent record; 0 when the month is done. Can be stopped and taken up again.';

create function symphony.check_retirable(p_partition_name text, p_keep_days int) returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_obstacle text := symphony.retention_obstacle(p_partition_name, p_keep_days);
  v_part symphony.payment_outbox_partitions;
  v_rows bigint;
  v_last timestamptz;
begin
  select * into v_part from symphony.payment_outbox_partitions where partition_name = p_partition_name;
  if v_obstacle is null and (v_part.exported_at is null or v_part.copied_at is null) then
    v_obstacle := format('%s has to be exported and its verdicts copied first', p_partition_name);
  end if;
  if v_obstacle is null then
    select count(*), max(a.completed_at) into v_rows, v_last
      from symphony.payment_outbox_attempts a
     where a.outbox_id >= symphony.uuidv7_floor(v_part.from_at) and a.outbox_id < symphony.uuidv7_floor(v_part.until_at);
    if v_rows <> v_part.exported_rows then
      v_obstacle := format('%s has %s rows and its export %s; export it again', p_partition_name, v_rows, v_part.exported_rows);
    elsif v_last > v_part.exported_at then
      v_obstacle := format('%s has a verdict of %s, after its export at %s; export it again',
                           p_partition_name, v_last, v_part.exported_at);
    end if;
  end if;
  if v_obstacle is not null then
    raise exception '%', v_obstacle using errcode = 'P7009';
  end if;
end
$$;

comment on function symphony.check_retirable(text, int) is
  'The last look before a month is detached: nothing open, and all of it in its export. Nothing can get into its way afterwards: it has no pending id, so nobody can write to it.';

create function symphony.note_detached(p_partition_name text) returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  if exists (select 1
               from pg_catalog.pg_inherits i
              where i.inhparent = 'symphony.payment_outbox_attempts'::regclass
                and i.inhrelid = to_regclass(format('symphony.%I', p_partition_name))) then
    raise exception '% is still attached', p_partition_name using errcode = 'P7009';
  end if;
  update symphony.payment_outbox_partitions
     set detached_at = symphony.clock()
   where partition_name = p_partition_name and detached_at is null;
end
$$;

comment on function symphony.note_detached(text) is 'Records a detachment that has happened. The CHECKs of the table refuse it before export and copy.';

create function symphony.drop_detached(p_partition_name text) returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  update symphony.payment_outbox_partitions
     set dropped_at = symphony.clock()
   where partition_name = p_partition_name and detached_at is not null and dropped_at is null;
  if not found then
    raise exception '% is not detached, or dropped already', p_partition_name using errcode = 'P7009';
  end if;
  delete from symphony.payment_outbox_holds h
   using symphony.payment_outbox_partitions p
   where p.partition_name = p_partition_name
     and h.outbox_id >= symphony.uuidv7_floor(p.from_at) and h.outbox_id < symphony.uuidv7_floor(p.until_at);
  delete from symphony.payment_outbox_captures c
   using symphony.payment_outbox_partitions p
   where p.partition_name = p_partition_name
     and c.outbox_id >= symphony.uuidv7_floor(p.from_at) and c.outbox_id < symphony.uuidv7_floor(p.until_at);
  execute format('drop table if exists symphony.%I', p_partition_name);
end
$$;

comment on function symphony.drop_detached(text) is
  'Drops a month that was exported, copied and detached, and what is left of the holds and captured values of its payments.';

reset role;
