create or replace function symphony.note_detached(p_partition_name text) returns void
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
