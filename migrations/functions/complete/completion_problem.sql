create or replace function symphony.completion_problem(
  p_state text, p_money_moved text, p_unsettled boolean, p_retry_delay_seconds double precision, p_adapter_digest bytea)
  returns text
  language sql stable
  as $$
    select case when p_state is null or p_state not in ('DISPATCHED', 'FAILED', 'RETRYABLE')
                  then format('P7003 %s is not a state that a holder may give', coalesce(p_state, 'null'))
                when p_money_moved not in ('yes', 'no', 'unknown')
                  then format('22023 money_moved must be yes, no or unknown, not %s', p_money_moved)
                when (p_state = 'DISPATCHED') <> (p_money_moved = 'yes')
                  then format('22023 money_moved = %s contradicts %s', p_money_moved, p_state)
                when p_state = 'RETRYABLE' and p_money_moved = 'unknown' and not p_unsettled
                  then '22023 the past cannot be settled while it is unknown whether money moved'
                when p_retry_delay_seconds is not null and p_retry_delay_seconds not between 0 and 2678400
                  then format('22023 retry_delay_seconds must be between 0 and 2678400, not %s', p_retry_delay_seconds)
                when octet_length(p_adapter_digest) <> 32
                  then '22023 adapter_digest must have 32 bytes' end
  $$;

comment on function symphony.completion_problem(text, text, boolean, double precision, bytea) is
  'Why an outcome cannot be written, as SQLSTATE and sentence; null if it can.';
