create or replace function symphony.resolve_payment(
  p_outbox_id uuid, p_money_moved text, p_by text, p_why text, p_evidence text) returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_before record;
begin
  if p_money_moved is null or p_money_moved not in ('yes', 'no') then
    raise exception 'money_moved must be yes or no' using errcode = '22023';
  end if;
  if p_evidence is null or length(p_evidence) not between 1 and 10000 then
    raise exception 'evidence must have 1 to 10000 characters' using errcode = '22023';
  end if;
  perform symphony.lock_payment(p_outbox_id);
  select r.finding_no, r.money_moved, r.resolved_at into v_before
    from symphony.payment_outbox_resolutions r
   where r.outbox_id = p_outbox_id
   order by r.finding_no desc
   limit 1;
  -- A finding stands until the rail says that it paid what the finding says was not paid.
  if not exists (select 1 from symphony.payment_outbox_attempts a
                  where a.outbox_id = p_outbox_id and a.state = 'FAILED'
                    and (a.money_moved = 'unknown' and v_before.finding_no is null
                         or coalesce(v_before.money_moved, 'no') = 'no'
                            and exists (select 1 from symphony.payment_outbox_late_answers l
                                         where l.outbox_id = a.outbox_id
                                           and (l.money_moved = 'yes' or l.state = 'DISPATCHED')
                                           and l.recorded_at > coalesce(v_before.resolved_at, '-infinity')))) then
    raise exception 'payment % has no open outcome to resolve', p_outbox_id using errcode = 'P7008';
  end if;
  perform symphony.note_act('resolve_payment', p_outbox_id::text, p_by, p_why,
                            jsonb_build_object('money_moved', p_money_moved));
  insert into symphony.payment_outbox_resolutions (outbox_id, finding_no, money_moved, by_whom, why, evidence, resolved_at)
  values (p_outbox_id, coalesce(v_before.finding_no, 0) + 1, p_money_moved, p_by, p_why, p_evidence,
          -- Later than every answer that it knows of, even if the clock went back since.
          greatest(symphony.clock(), (select max(l.recorded_at) from symphony.payment_outbox_late_answers l
                                       where l.outbox_id = p_outbox_id)))
  on conflict (outbox_id, finding_no) do nothing;
  if not found then
    raise exception 'payment % is resolved already', p_outbox_id using errcode = 'P7008';
  end if;
end
$$;

comment on function symphony.resolve_payment(uuid, text, text, text, text) is
  'A person''s finding, with evidence, on a payment whose outcome the rail left open. Only once, unless a late success contradicts it.';

grant execute on function symphony.resolve_payment(uuid, text, text, text, text)
  to symphony_operator;
