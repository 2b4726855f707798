create or replace function symphony.check_lease_arguments(
  p_batch_size int, p_worker_id text, p_lease_seconds double precision) returns boolean
  language plpgsql immutable
  as $$
begin
  if p_batch_size is null or p_batch_size not between 1 and 10000 then
    raise exception 'batch_size must be between 1 and 10000, not %', coalesce(p_batch_size::text, 'null')
      using errcode = '22023';
  end if;
  if p_worker_id is null or length(p_worker_id) not between 1 and 256 then
    raise exception 'worker_id must have 1 to 256 characters' using errcode = '22023';
  end if;
  if p_lease_seconds is null or not (p_lease_seconds between 1 and 3600) then
    raise exception 'lease_seconds must be between 1 and 3600, not %', coalesce(p_lease_seconds::text, 'null')
      using errcode = '22023';
  end if;
  return true;
end
$$;

comment on function symphony.check_lease_arguments(int, text, double precision) is
  'Checks what all functions for lease holders have in common: batch size, worker, lease length. True, or an error.';
