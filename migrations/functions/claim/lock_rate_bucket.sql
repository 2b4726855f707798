create or replace function symphony.lock_rate_bucket(
  p_rail_type text, p_now timestamptz, p_rate_per_second int, p_burst int,
  out tokens double precision, out refilled_at timestamptz)
  language plpgsql
  as $$
#variable_conflict use_column
declare
  v_now timestamptz;
begin
  insert into symphony.rail_token_buckets (rail_type, tokens, refilled_at)
  values (p_rail_type, p_burst, p_now)
  on conflict (rail_type) do nothing;
  select b.tokens, b.refilled_at
    into tokens, refilled_at
    from symphony.rail_token_buckets b
   where b.rail_type = p_rail_type
     for update;
  -- Another claim may have held the bucket for a while. The time that counts is when our turn came.
  v_now := symphony.clock();
  tokens := symphony.refilled(tokens, refilled_at, v_now, p_rate_per_second, p_burst);
  refilled_at := v_now;
end
$$;

comment on function symphony.lock_rate_bucket(text, timestamptz, int, int) is
  'Locks a rail''s token bucket until the transaction ends, so that two claims never spend the same token, and answers with what it holds and when. The claim writes what it leaves.';
