create or replace function symphony.answer_mixed_completions(
  p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_states text[], p_retry_delay_seconds double precision[],
  p_money_moved text[], p_unsettled boolean[], p_adapter_digests bytea[], p_hits int[], p_numbers int[], p_ended_as text[])
  returns table (ordinal int, outbox_id uuid, attempt_no int, state text, repeated boolean, refusal text,
                 refusal_detail text)
  language plpgsql
  as $$
#variable_conflict use_column
begin
  return query
    select a.ord, p_outbox_ids[a.ord], a.no, a.state, a.repeated, left(a.problem, 5), substr(a.problem, 7)
      from (select t.ord, t.no, t.state, false as repeated, null::text as problem
              from unnest(p_hits, p_numbers, p_ended_as) as t(ord, no, state)
            union all
            select m.ord::int, b.attempt_no, b.state::text, b.outbox_id is not null,
                   case when m.problem is not null then m.problem
                        when b.outbox_id is not null then null
                        when exists (select 1 from symphony.payment_outbox_attempts c
                                      where c.outbox_id = m.id and c.attempt_no = symphony.attempts_max())
                             and exists (select 1 from symphony.payment_outbox_pending p
                                          where p.outbox_id = m.id and p.lease_token = m.token)
                          then format('P7005 payment %s has %s attempts already', m.id, symphony.attempts_max())
                        -- The host keeps what it heard: record_late_answer.
                        else format('P7002 lease %s of payment %s is not held by %s', m.token, m.id, p_worker_id) end
              from (select t.id, t.token, t.ord,
                           symphony.completion_problem(t.given, t.money, t.says_unsettled, t.delay, t.digest) as problem
                      from unnest(p_outbox_ids, p_lease_tokens, p_states, p_retry_delay_seconds, p_money_moved, p_unsettled,
                                  p_adapter_digests)
                           with ordinality as t(id, token, given, delay, money, says_unsettled, digest, ord)) m
              -- The same token again: its first completion was written, and its answer was lost.
              left join symphony.payment_outbox_attempts b
                on b.outbox_id = m.id and b.lease_token = m.token and b.worker_id = p_worker_id
               and b.by_holder and m.problem is null
             where not (m.ord = any (coalesce(p_hits, '{}')))) a
     order by a.ord;
end
$$;

comment on function symphony.answer_mixed_completions(text, uuid[], uuid[], text[], double precision[], text[], boolean[], bytea[], int[], int[], text[]) is
  'The answers to a batch of which not every outcome was written: hits, repeated completions and refusals, in input order.';
