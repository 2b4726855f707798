create or replace function symphony.find_repeats(
  p_outbox_ids uuid[], p_lease_tokens uuid[], p_states text[], p_retry_delay_seconds double precision[],
  p_money_moved text[], p_unsettled boolean[], p_adapter_digests bytea[])
  returns boolean[]
  language plpgsql
  as $$
begin
  return array(
    select row_number() over (
             partition by t.id, t.token,
                          symphony.completion_problem(t.given, t.money, t.says_unsettled, t.delay, t.digest) is null
             order by t.ord) > 1
      from unnest(p_outbox_ids, p_lease_tokens, p_states, p_retry_delay_seconds, p_money_moved, p_unsettled,
                  p_adapter_digests)
           with ordinality as t(id, token, given, delay, money, says_unsettled, digest, ord)
     order by t.ord);
end
$$;

comment on function symphony.find_repeats(uuid[], uuid[], text[], double precision[], text[], boolean[], bytea[]) is
  'Which outcomes of a batch name a lease that an earlier one names. Of these the first counts that can be written.';
