create or replace function symphony.check_retirable(p_partition_name text, p_keep_days int) returns void
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
  'The last check before a month is detached: nothing is open, and all rows are in the export. Nothing can change afterwards: no payment of the month is pending, so nobody can write to it.';
