create or replace function symphony.sequence_gaps_between(p_participant_id text, p_from timestamptz, p_until timestamptz)
  returns table (participant_id text, gap_from bigint, gap_until bigint)
  language plpgsql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  -- To compile takes longer than to read a window.
  set jit = off
  as $$
#variable_conflict use_column
declare
  v_reaches_now boolean := p_until > symphony.clock();
begin
  if p_from is null or p_until is null or p_from >= p_until then
    raise exception 'a window begins before it ends, and both must be given' using errcode = '22023';
  end if;
  return query
    with edges as materialized (
      select r.participant_id, min(r.sequence_id) as low, max(r.sequence_id) as high
        from symphony.payment_outbox_records r
       where r.outbox_id >= symphony.uuidv7_floor(p_from) and r.outbox_id < symphony.uuidv7_floor(p_until)
         and (p_participant_id is null or r.participant_id = p_participant_id)
       group by r.participant_id
    )
    select e.participant_id::text, n.before + 1, n.sequence_id - 1
      from edges e
     -- A gap across the border belongs to the later window, or no window would show it.
     cross join lateral (select coalesce(max(r.sequence_id), 0) as number
                           from symphony.payment_outbox_records r
                          where r.participant_id = e.participant_id and r.sequence_id < e.low) last
     -- All numbers in between, whenever they were given: the clock may have gone back across the border.
     cross join lateral (select r.sequence_id, lag(r.sequence_id, 1, last.number) over (order by r.sequence_id) as before
                           from symphony.payment_outbox_records r
                          where r.participant_id = e.participant_id and r.sequence_id between e.low and e.high) n
     where n.before < n.sequence_id - 1
    union all
    -- After the last payment of a stream only the counter shows numbers, and not when they were given.
    select s.participant_id::text, coalesce(l.last, 0) + 1, s.next_sequence_id - 1
      from symphony.participant_outbox_sequences s
     cross join lateral (select max(r.sequence_id) as last
                           from symphony.payment_outbox_records r
                          where r.participant_id = s.participant_id) l
     where v_reaches_now
       and (p_participant_id is null or s.participant_id = p_participant_id)
       and coalesce(l.last, 0) <> s.next_sequence_id - 1
     order by 1, 2;
end
$$;

comment on function symphony.sequence_gaps_between(text, timestamptz, timestamptz) is
  'The gaps of a window, of one participant or (null) of all: numbers that lead to no payment, between the last one before the window''s first payment and its last one, and, where the window reaches beyond now, up to the participant''s counter. Windows that follow each other leave no number out.';

grant execute on function symphony.sequence_gaps_between(text, timestamptz, timestamptz)
  to symphony_readonly, symphony_auditor;
