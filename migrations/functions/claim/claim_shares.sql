create or replace function symphony.claim_shares(
  p_batch_size int, p_now timestamptz, p_rails text[], p_limits int[], p_lease_seconds double precision[],
  p_after timestamptz[], p_default_lease_seconds double precision, p_takeovers int, p_narrowed text[])
  returns table (rail_type text, takes_new boolean, narrowed text, room int, share int, lease_seconds double precision, after timestamptz,
                 all_fit boolean, rate_per_second int, burst int)
  language plpgsql stable
  set search_path = pg_catalog, symphony, pg_temp
  -- Each row is reached by an index, in its order and up to its limit: the statistics of a queue that is now empty, now
  -- millions long mislead the planner into reading all of it. The plan is kept, and no call is long enough to compile for.
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set enable_bitmapscan = off
  set jit = off
  set plan_cache_mode = force_generic_plan
  as $$
#variable_conflict use_column
begin
  if p_rails is null then
    p_rails := array(select symphony.rails_with_work());
  end if;
  return query
    with room as materialized (
      select w.*, sum(w.most) over () <= p_batch_size as all_fit
        from symphony.rail_limits(p_batch_size, p_now, p_rails, p_limits, p_lease_seconds, p_after, p_default_lease_seconds,
                                 p_narrowed) w
    ),
    -- More room than the batch: the rows that are due first decide how it is divided.
    first_due as materialized (
      select room.rail_type
        from room
       cross join lateral symphony.due_of_rail(room.rail_type, room.takes_new, room.narrowed, room.after, p_now, room.most,
                                               p_takeovers) d
       where not room.all_fit
       order by d.due_at, d.created_at
       limit p_batch_size
    )
    select room.rail_type, room.takes_new, room.narrowed, room.most,
           case when room.all_fit then room.most
                else least(room.most, (select count(*)::int from first_due f where f.rail_type = room.rail_type)) end,
           room.lease_seconds, room.after, room.all_fit, room.rate_per_second, room.burst
      from room;
end
$$;

comment on function symphony.claim_shares(int, timestamptz, text[], int[], double precision[], timestamptz[], double precision, int, text[]) is
  'How many rows of which rail one claim may take.';
