create or replace view symphony.payment_timeline as
select r.outbox_id, symphony.uuidv7_time(r.outbox_id) as at, 'ACCEPTED' as event,
       jsonb_build_object('participant_id', r.participant_id, 'sequence_id', r.sequence_id) as detail
  from symphony.payment_outbox_records r
union all
select a.outbox_id, a.completed_at, a.state::text,
       jsonb_strip_nulls(jsonb_build_object(
         'attempt_no', a.attempt_no, 'rail_type', a.rail_type, 'worker_id', a.worker_id, 'claimed_at', a.claimed_at,
         'latency_ms', a.latency_ms, 'money_moved', a.money_moved, 'rail_reference', a.rail_reference,
         'rail_code', a.rail_code, 'error_code', a.error_code, 'error_message', a.error_message,
         'adapter_digest', encode(a.adapter_digest, 'hex'), 'rail_digest', encode(a.rail_digest, 'hex'),
         'request_digest', encode(a.request_digest, 'hex'), 'reply_digest', encode(a.reply_digest, 'hex'),
         'witness', a.witness, 'facts', a.facts, 'instruction_id', a.instruction_id))
  from symphony.payment_outbox_attempts a
union all
select v.outbox_id, v.completed_at, v.state,
       jsonb_strip_nulls(jsonb_build_object(
         'attempt_no', v.attempt_no, 'money_moved', v.money_moved, 'rail_reference', v.rail_reference,
         'error_code', v.error_code, 'history', 'gone'))
  from symphony.payment_outbox_verdicts v
 where not exists (select 1 from symphony.payment_outbox_attempts a where a.outbox_id = v.outbox_id)
union all
select p.outbox_id, coalesce(case when p.lease_token is not null then p.claimed_at end, greatest(p.next_attempt_at, p.created_at)),
       case when p.lease_token is not null then 'LEASED' when p.parked then 'PARKED'
            when p.next_attempt_at > symphony.clock() then 'SCHEDULED' else 'DUE' end,
       jsonb_strip_nulls(jsonb_build_object(
         'rail_type', p.rail_type, 'instruction_id', p.instruction_id, 'attempt_count', p.attempt_count,
         'unsettled', p.unsettled, 'claimed_by', p.claimed_by, 'lease_expires_at', p.lease_expires_at,
         'handed_over_at', p.handed_over_at, 'next_attempt_at', p.next_attempt_at))
  from symphony.payment_outbox_pending p
union all
select l.outbox_id, l.recorded_at,
       case when l.money_moved = 'yes' or l.state = 'DISPATCHED' then 'LATE_SUCCESS' when l.state = 'FAILED' then 'LATE_FAILURE' else 'LATE_ANSWER' end,
       jsonb_strip_nulls(jsonb_build_object(
         'worker_id', l.worker_id, 'state', l.state, 'money_moved', l.money_moved, 'rail_reference', l.rail_reference,
         'rail_code', l.rail_code, 'error_code', l.error_code, 'error_message', l.error_message))
  from symphony.payment_outbox_late_answers l
union all
select h.outbox_id, h.last_held_at, 'HELD',
       jsonb_strip_nulls(jsonb_build_object(
         'times', h.times, 'first_held_at', h.first_held_at, 'rail_type', h.rail_type, 'worker_id', h.worker_id,
         'rail_code', h.rail_code, 'error_code', h.error_code, 'error_message', h.error_message,
         'adapter_digest', encode(h.adapter_digest, 'hex')))
  from symphony.payment_outbox_holds h
union all
select r.outbox_id, r.resolved_at, 'RESOLVED',
       jsonb_build_object('money_moved', r.money_moved, 'by', r.by_whom, 'login', r.login, 'why', r.why, 'evidence', r.evidence)
  from symphony.payment_outbox_resolutions r
union all
select r.predecessor_id, r.reissued_at, 'REISSUED_AS',
       jsonb_build_object('outbox_id', r.successor_id, 'by', r.by_whom, 'login', r.login, 'why', r.why)
  from symphony.payment_outbox_reissues r
union all
select r.successor_id, r.reissued_at, 'REISSUE_OF',
       jsonb_build_object('outbox_id', r.predecessor_id, 'by', r.by_whom, 'login', r.login, 'why', r.why)
  from symphony.payment_outbox_reissues r;

comment on view symphony.payment_timeline is
  'Every event of a payment; ask for one outbox_id and order by at. The last row of an unfinished payment says where it stands.';

grant select on symphony.payment_timeline to symphony_readonly, symphony_auditor;
