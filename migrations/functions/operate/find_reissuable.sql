create or replace function symphony.find_reissuable(
  p_outbox_id uuid, out participant_id text, out rail_type text, out payload jsonb)
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  as $$
#variable_conflict use_column
declare
  v_verdict record;
  v_resolved text;
begin
  select a.state, a.money_moved, a.participant_id, a.rail_type, a.payload,
         a.error_code = 'CANCELLED' and a.worker_id = 'operator' as cancelled
    into v_verdict
    from symphony.payment_outbox_attempts a
   where a.outbox_id = p_outbox_id and a.state in ('DISPATCHED', 'FAILED');
  if not found then
    raise exception 'payment % has no verdict in the history', p_outbox_id using errcode = 'P7008';
  end if;
  if v_verdict.cancelled then
    raise exception 'payment % cannot be reissued: it was cancelled; enqueue a new one', p_outbox_id
      using errcode = 'P7008';
  end if;
  select r.money_moved into v_resolved
    from symphony.payment_outbox_resolutions r
   where r.outbox_id = p_outbox_id
   order by r.finding_no desc
   limit 1;
  if v_verdict.state <> 'FAILED' or coalesce(v_resolved, v_verdict.money_moved) <> 'no' then
    raise exception 'payment % cannot be reissued: it is %, money moved: %',
                    p_outbox_id, v_verdict.state, coalesce(v_resolved, v_verdict.money_moved)
      using errcode = 'P7008';
  end if;
  if exists (select 1 from symphony.payment_outbox_late_answers l
              where l.outbox_id = p_outbox_id and (l.money_moved = 'yes' or l.state = 'DISPATCHED')) then
    raise exception 'payment % cannot be reissued: a late answer says that the money moved', p_outbox_id
      using errcode = 'P7008';
  end if;
  participant_id := v_verdict.participant_id;
  rail_type := v_verdict.rail_type;
  payload := v_verdict.payload;
end
$$;

comment on function symphony.find_reissuable(uuid) is
  'What a new payment takes over from one that failed without moving money; an error for every other payment. To be called after lock_payment.';
