create or replace function symphony.note_export(p_partition_name text, p_rows bigint, p_sha256 text) returns void
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
