create or replace function symphony.drop_detached(p_partition_name text) returns void
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
