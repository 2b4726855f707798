create or replace function symphony.number_payments(
  p_fresh boolean[], p_participant_ids text[], p_rail_types text[], p_fronts jsonb,
  out numbers bigint[], out places bigint[], out ids uuid[])
  language plpgsql
  as $$
#variable_conflict use_column
begin
  with fresh as materialized (
    select t.*, row_number() over (partition by t.participant order by t.ord desc) as from_end,
           row_number() over (partition by t.participant, t.rail order by t.ord desc) as from_end_of_rail
      from unnest(p_fresh, p_participant_ids, p_rail_types) with ordinality as t(fresh, participant, rail, ord)
     where t.fresh
  ),
  -- One bump per participant, in the same order in all sessions, so that two batches never deadlock.
  bumped as (
    insert into symphony.participant_outbox_sequences as s (participant_id, next_sequence_id, places)
    select f.participant, sum(f.wanted) + 1, jsonb_object_agg(f.rail, (p_fronts ->> f.rail)::bigint + f.wanted)
      from (select r.participant, r.rail, count(*) as wanted from fresh r group by r.participant, r.rail) f
     group by f.participant
     order by f.participant
    on conflict (participant_id) do update
      set next_sequence_id = s.next_sequence_id + excluded.next_sequence_id - 1,
          -- Places count from the front of the rail's queue, and stand behind the participant's own earlier ones. Rails
          -- are free text here: a participant that invents thousands loses its places, and the row stays small.
          places = case when pg_column_size(s.places) < 4000 then s.places else '{}' end || (
            select jsonb_object_agg(g.key, g.value::bigint
                     + greatest(0, coalesce((s.places ->> g.key)::bigint - (p_fronts ->> g.key)::bigint, 0)))
              from jsonb_each_text(excluded.places) g)
    returning s.participant_id, s.next_sequence_id, s.places
  ),
  numbered as (
    select f.ord, b.next_sequence_id - f.from_end as number,
           (b.places ->> f.rail)::bigint - f.from_end_of_rail + 1 as place
      from fresh f
      join bumped b on b.participant_id = f.participant
  )
  select array_agg(n.number order by a.ord), array_agg(n.place order by a.ord),
         array_agg(case when n.ord is not null then symphony.uuidv7() end order by a.ord)
    into numbers, places, ids
    from generate_series(1, cardinality(p_fresh)) as a(ord)
    left join numbered n on n.ord = a.ord;
end
$$;

comment on function symphony.number_payments(boolean[], text[], text[], jsonb) is
  'Gives each new payment of a batch its number in the stream, its place in the queue and its id. Locks the counter of each participant until the transaction ends.';
