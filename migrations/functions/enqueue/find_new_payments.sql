create or replace function symphony.find_new_payments(
  p_problems text[], p_digests uuid[], p_participant_ids text[], p_first_look boolean,
  out fresh boolean[], out suspended boolean[])
  language plpgsql
  as $$
begin
  -- Nearly every batch is all new: four questions about the batch spare four about each row.
  if p_first_look
     and cardinality(array_remove(p_problems, null)) = 0
     and (select count(distinct t.digest) from unnest(p_digests) as t(digest)) = cardinality(p_digests)
     and not exists (select 1 from symphony.payment_outbox_records r where r.key_digest = any (p_digests))
     and not exists (select 1 from symphony.participants s
                      where s.participant_id = any (p_participant_ids) and s.state = 'SUSPENDED') then
    fresh := array_fill(true, array[cardinality(p_digests)]);
    suspended := array_fill(false, array[cardinality(p_digests)]);
  else
    -- A refused row does not use up its key: the next row of the batch with this key may have it.
    select array_agg(t.is_new and t.may_enter order by t.ord),
           array_agg(t.is_new and not t.may_enter and t.problem is null order by t.ord)
      into fresh, suspended
      from (select w.*,
                   count(*) filter (where w.may_enter) over (partition by w.digest order by w.ord)
                     = case when w.may_enter then 1 else 0 end
                   and not exists (select 1 from symphony.payment_outbox_records r where r.key_digest = w.digest) as is_new
              from (select u.problem, u.digest, u.ord,
                           u.problem is null
                           and not exists (select 1 from symphony.participants s
                                            where s.participant_id = u.participant and s.state = 'SUSPENDED') as may_enter
                      from unnest(p_problems, p_digests, p_participant_ids)
                           with ordinality as u(problem, digest, participant, ord)) w) t;
  end if;
end
$$;

comment on function symphony.find_new_payments(text[], uuid[], text[], boolean) is
  'Which payments of a batch are new: nothing is wrong with them, their participant is not suspended, and their key is not on record and not used earlier in the batch. suspended: those that would be new if their participant were not suspended.';
