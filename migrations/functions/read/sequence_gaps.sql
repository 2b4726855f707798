create or replace view symphony.sequence_gaps as
select g.participant_id, g.gap_from, g.gap_until
  from (select r.participant_id,
               coalesce(lag(r.sequence_id) over stream, 0) + 1 as gap_from,
               r.sequence_id - 1 as gap_until
          from symphony.payment_outbox_records r
        window stream as (partition by r.participant_id order by r.sequence_id)) g
 where g.gap_from <= g.gap_until
union all
select s.participant_id, coalesce(l.last, 0) + 1, s.next_sequence_id - 1
  from symphony.participant_outbox_sequences s
 cross join lateral (select max(r.sequence_id) as last
                       from symphony.payment_outbox_records r
                      where r.participant_id = s.participant_id) l
 where coalesce(l.last, 0) <> s.next_sequence_id - 1;

comment on view symphony.sequence_gaps is
  'Numbers that were given out and lead to no payment. No row is the proof that there are none; ask for one participant to prove one stream.';

grant select on symphony.sequence_gaps to symphony_readonly, symphony_auditor;
