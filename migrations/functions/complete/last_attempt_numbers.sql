create or replace function symphony.last_attempt_numbers(p_outbox_ids uuid[]) returns int[]
  language plpgsql
  as $$
begin
  return array(
    select coalesce((select a.attempt_no
                       from symphony.payment_outbox_attempts a
                      where a.outbox_id = t.id
                      order by a.attempt_no desc
                      limit 1), 0)
      from unnest(p_outbox_ids) with ordinality as t(id, ord)
     order by t.ord);
end
$$;

comment on function symphony.last_attempt_numbers(uuid[]) is
  'Per payment the number of its last attempt, 0 where it has none.';
