create or replace view symphony.blocked_streams as
select s.participant_id, h.outbox_id as head_id, h.rail_type, h.created_at as since, h.attempt_count as attempts, h.unsettled,
       w.waiting
  from symphony.participants s
 cross join lateral (select e.outbox_id, e.rail_type, e.created_at, e.attempt_count, e.unsettled
                       from symphony.payment_outbox_pending e
                      where e.participant_id = s.participant_id
                      order by e.sequence_id
                      limit 1) h
 cross join lateral (select count(*) as waiting
                       from symphony.payment_outbox_pending p
                      where p.participant_id = s.participant_id and p.parked and p.outbox_id <> h.outbox_id) w
 where s.strict_order and w.waiting > 0;

comment on view symphony.blocked_streams is
  'Strictly ordered participants of whom payments wait, and the payment whose verdict they wait for.';

grant select on symphony.blocked_streams to symphony_readonly, symphony_auditor;
