create or replace function symphony.check_claim_arguments(
  p_batch_size int, p_worker_id text, p_lease_seconds double precision, p_rails text[], p_rail_limits int[],
  p_rail_lease_seconds double precision[], p_rail_after timestamptz[], p_takeovers int, p_rail_narrowed text[])
  returns boolean
  language plpgsql immutable
  as $$
declare
  v_sound boolean := symphony.check_lease_arguments(p_batch_size, p_worker_id, p_lease_seconds);
begin
  if p_takeovers is null or p_takeovers not between 0 and 10000 then
    raise exception 'takeovers must be between 0 and 10000, not %', coalesce(p_takeovers::text, 'null')
      using errcode = '22023';
  end if;
  -- Expressions without a query are evaluated without the executor, and a host asks this many times a second.
  v_sound := case
    when p_rails is null then num_nonnulls(p_rail_limits, p_rail_lease_seconds, p_rail_after, p_rail_narrowed) = 0
    else cardinality(p_rails) <= 1000 and array_position(p_rails, null) is null
         and coalesce(cardinality(p_rail_limits), cardinality(p_rails)) = cardinality(p_rails)
         and coalesce(cardinality(p_rail_lease_seconds), cardinality(p_rails)) = cardinality(p_rails)
         and coalesce(cardinality(p_rail_after), cardinality(p_rails)) = cardinality(p_rails)
         and coalesce(cardinality(p_rail_narrowed), cardinality(p_rails)) = cardinality(p_rails)
         and (p_rail_limits is null or 1 <= all (p_rail_limits) and 10000 >= all (p_rail_limits))
         and (p_rail_lease_seconds is null or 1 <= all (p_rail_lease_seconds) and 3600 >= all (p_rail_lease_seconds))
         and (p_rail_narrowed is null or array_remove(p_rail_narrowed, null) <@ array['ASKED', 'TRIED']) end;
  if v_sound and cardinality(p_rails) > 1 then
    v_sound := (select count(*) = count(distinct r) from unnest(p_rails) as t(r));
  end if;
  if v_sound is not true then
    raise exception 'rails must be distinct and at most 1000, and their limits (1 to 10000), lease seconds (1 to 3600), lower bounds and narrowings (ASKED, TRIED) arrays of the same length'
      using errcode = '22023';
  end if;
  return true;
end
$$;

comment on function symphony.check_claim_arguments(int, text, double precision, text[], int[], double precision[], timestamptz[], int, text[]) is
  'What a claim asks of its caller. True, or an error that names the argument.';
