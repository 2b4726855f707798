create or replace view symphony.payments as
select p.outbox_id, p.instruction_id, p.idempotency_key, p.participant_id, p.sequence_id, p.rail_type,
       case when p.lease_token is not null then 'LEASED' when p.parked then 'PARKED'
            when p.next_attempt_at > symphony.statement_clock() then 'SCHEDULED' else 'PENDING' end as state,
       p.unsettled, p.attempt_count as attempts, p.created_at, null::timestamptz as ended_at,
       case when p.unsettled then 'unknown' end as money_moved,
       said.error_code, said.rail_code, said.rail_reference, said.error_message, p.payload,
       p.payload ->> 'amount' as amount, p.payload ->> 'currency' as currency,
       case when jsonb_typeof(p.payload -> 'destination') = 'object'
            then coalesce(p.payload #>> '{destination,msisdn}', p.payload #>> '{destination,account}')
            else p.payload ->> 'destination' end as payee,
       null::text as resolved, null::uuid as reissued_as,
       exists (select 1 from symphony.payments_needing_review n where n.outbox_id = p.outbox_id) as needs_review
  from symphony.payment_outbox_pending p
  -- What was heard last, in an attempt or at a hold.
  left join lateral (select w.*
                       from ((select a.completed_at as at, a.error_code, a.rail_code, a.rail_reference, a.error_message
                                from symphony.payment_outbox_attempts a
                               where p.attempt_count > 0 and a.outbox_id = p.outbox_id
                               order by a.attempt_no desc
                               limit 1)
                             union all
                             select h.last_held_at, h.error_code, h.rail_code, null, h.error_message
                               from symphony.payment_outbox_holds h
                              where h.outbox_id = p.outbox_id) w
                      order by w.at desc
                      limit 1) said on true
union all
select a.outbox_id, a.instruction_id, a.idempotency_key, a.participant_id, a.sequence_id, a.rail_type,
       a.state::text, false, a.attempt_no, symphony.uuidv7_time(a.outbox_id), a.completed_at, a.money_moved,
       a.error_code, a.rail_code, a.rail_reference, a.error_message, a.payload,
       a.payload ->> 'amount', a.payload ->> 'currency',
       case when jsonb_typeof(a.payload -> 'destination') = 'object'
            then coalesce(a.payload #>> '{destination,msisdn}', a.payload #>> '{destination,account}')
            else a.payload ->> 'destination' end,
       (select r.money_moved from symphony.payment_outbox_resolutions r
         where r.outbox_id = a.outbox_id order by r.finding_no desc limit 1),
       (select r.successor_id from symphony.payment_outbox_reissues r where r.predecessor_id = a.outbox_id),
       exists (select 1 from symphony.payments_needing_review n where n.outbox_id = a.outbox_id)
  from symphony.payment_outbox_attempts a
 where a.state in ('DISPATCHED', 'FAILED');

comment on view symphony.payments is
  'One row per payment that is pending or whose verdict is in the history. Ask for a range of outbox_id (symphony.uuidv7_floor(time) is its border) and only the months of that range are read. error_code and the columns beside it are what was heard last; resolved is what a person found out about the money.';

grant select on symphony.payments to symphony_readonly, symphony_auditor;
