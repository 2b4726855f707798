create or replace function symphony.rail_limits(
  p_batch_size int, p_now timestamptz, p_rails text[], p_limits int[], p_lease_seconds double precision[],
  p_after timestamptz[], p_default_lease_seconds double precision, p_narrowed text[])
  returns table (rail_type text, takes_new boolean, narrowed text, most int, lease_seconds double precision, after timestamptz,
                 rate_per_second int, burst int)
  language sql stable
  as $$
    select p_rails[u.at], coalesce(r.state, 'ENABLED') = 'ENABLED' and p_narrowed[u.at] is distinct from 'ASKED',
           p_narrowed[u.at],
           -- Rows that the rail's token bucket cannot pay for must not take the place of other rails.
           least(coalesce(p_limits[u.at], p_batch_size), p_batch_size,
                 floor(coalesce(symphony.refilled(b.tokens, b.refilled_at, p_now, r.rate_per_second, r.burst),
                                r.burst))::int),
           coalesce(p_lease_seconds[u.at], p_default_lease_seconds), coalesce(p_after[u.at], '-infinity'),
           r.rate_per_second, r.burst
      from generate_subscripts(p_rails, 1) as u(at)
      left join symphony.rails r on r.rail_type = p_rails[u.at]
      left join symphony.rail_token_buckets b on b.rail_type = r.rail_type
  $$;

comment on function symphony.rail_limits(int, timestamptz, text[], int[], double precision[], timestamptz[], double precision, text[]) is
  'How much each rail may take now: whether new payments may be leased (not of a paused rail, nor where only questions are wanted), its limit, the tokens in its bucket.';
