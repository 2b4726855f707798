create or replace function symphony.refilled(
  p_tokens double precision, p_refilled_at timestamptz, p_now timestamptz, p_rate_per_second int, p_burst int)
  returns double precision
  language sql immutable parallel safe
  as $$
    select least(p_burst, p_tokens + p_rate_per_second * case
             when p_refilled_at > p_now + interval '1 second' then 1
             else greatest(0, extract(epoch from p_now - p_refilled_at)::double precision) end)
  $$;

comment on function symphony.refilled(double precision, timestamptz, timestamptz, int, int) is
  'How many tokens a bucket holds now. If it was filled in the future, the clock went back, and nobody knows how long ago it was filled: it gets the tokens of one second.';
