create or replace function symphony.copy_verdicts(p_partition_name text, p_keep_days int, p_limit int default 10000) returns int
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
  -- Copied in the order of ids: the last one copied says where to continue.
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
  'Copies a bounded number of verdicts to the permanent record; 0 when the month is done. Can be stopped and continued.';
