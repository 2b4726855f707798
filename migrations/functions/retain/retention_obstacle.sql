create or replace function symphony.retention_obstacle(p_partition_name text, p_keep_days int) returns text
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
