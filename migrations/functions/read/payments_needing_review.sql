create or replace view symphony.payments_needing_review as
select a.outbox_id, a.instruction_id, a.participant_id, a.rail_type, a.completed_at as since,
       case when a.error_code in ('OUTCOME_UNKNOWN', 'ADAPTER_VETO') then a.error_code
            else 'FINAL_NO_TO_LOOK_AT' end as reason,
       a.error_code, a.rail_code, a.error_message,
       exists (select 1 from symphony.payment_outbox_late_answers l where l.outbox_id = a.outbox_id) as has_late_answer
  from symphony.payment_outbox_attempts a
 where a.state = 'FAILED' and a.money_moved = 'unknown'
   and not exists (select 1 from symphony.payment_outbox_resolutions r where r.outbox_id = a.outbox_id)
union all
select a.outbox_id, a.instruction_id, a.participant_id, a.rail_type, l.recorded_at, 'LATE_SUCCESS',
       a.error_code, l.rail_code, l.error_message, true
  from symphony.payment_outbox_late_answers l
  join symphony.payment_outbox_attempts a on a.outbox_id = l.outbox_id and a.state = 'FAILED'
  left join lateral (select r.money_moved, r.resolved_at
                       from symphony.payment_outbox_resolutions r
                      where r.outbox_id = l.outbox_id
                      order by r.finding_no desc
                      limit 1) found on true
 where (l.money_moved = 'yes' or l.state = 'DISPATCHED')
   and coalesce(found.money_moved, a.money_moved) = 'no'
   -- A finding knew what had been heard by then, and nothing later.
   and l.recorded_at > coalesce(found.resolved_at, '-infinity')
union all
select p.outbox_id, p.instruction_id, p.participant_id, p.rail_type, veto.completed_at, veto.error_code,
       veto.error_code, veto.rail_code, veto.error_message,
       exists (select 1 from symphony.payment_outbox_late_answers l where l.outbox_id = p.outbox_id)
  from symphony.payment_outbox_pending p
 cross join lateral (select a.completed_at, a.error_code, a.rail_code, a.error_message
                       from symphony.payment_outbox_attempts a
                      where a.outbox_id = p.outbox_id and a.error_code = 'ADAPTER_VETO'
                      order by a.attempt_no
                      limit 1) veto
 where p.unsettled
union all
select a.outbox_id, a.instruction_id, a.participant_id, a.rail_type, a.completed_at, a.error_code,
       a.error_code, a.rail_code, a.error_message,
       exists (select 1 from symphony.payment_outbox_late_answers l where l.outbox_id = a.outbox_id)
  from symphony.payment_outbox_attempts a
 where a.error_code = 'ECHO_DIFFERS'
   and not exists (select 1 from symphony.payment_outbox_resolutions r where r.outbox_id = a.outbox_id)
union all
select p.outbox_id, p.instruction_id, p.participant_id, p.rail_type, p.created_at, 'SLA_EXCEEDED', null, null, null,
       exists (select 1 from symphony.payment_outbox_late_answers l where l.outbox_id = p.outbox_id)
  from symphony.rails r
  join symphony.payment_outbox_pending p
    on p.rail_type = r.rail_type
   and p.outbox_id < symphony.uuidv7_floor(symphony.statement_clock() - make_interval(secs => r.sla_seconds));

comment on view symphony.payments_needing_review is
  'What a person has to look at, and why: an outcome that the rail left open, a failure whose reason no code table lists, a success heard after a failure or after a finding of no payment, a verdict that the adapter vetoed (also while the rail is still being asked), a success with another amount or payee than instructed, a payment open for longer than its rail allows.';

grant select on symphony.payments_needing_review to symphony_readonly, symphony_auditor;
