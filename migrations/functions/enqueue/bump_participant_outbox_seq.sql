create or replace function symphony.bump_participant_outbox_seq(p_participant_id text) returns bigint
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_sequence_id bigint;
begin
  if p_participant_id is null or length(p_participant_id) not between 1 and 256 then
    raise exception 'participant_id must have 1 to 256 characters' using errcode = '22023';
  end if;
  insert into symphony.participant_outbox_sequences as s (participant_id, next_sequence_id)
  values (p_participant_id, 2)
  on conflict (participant_id) do update
    set next_sequence_id = s.next_sequence_id + 1
  returning next_sequence_id - 1 into v_sequence_id;
  return v_sequence_id;
end
$$;

comment on function symphony.bump_participant_outbox_seq(text) is
  'The next number of a stream, which begins at 1. Not granted to anyone: a number taken without a payment would be a gap.';
