create or replace function symphony.configure_rail(
  p_rail_type text, p_deduplicates boolean, p_hand_over_marks boolean, p_sla_seconds int, p_rate_per_second int,
  p_burst int, p_by text, p_why text, p_key_forms text default null) returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_known text := (select r.key_forms from symphony.rails r where r.rail_type = p_rail_type);
begin
  perform symphony.check_identifier('rail_type', p_rail_type, 64);
  if v_known <> p_key_forms
     and exists (select 1
                   from symphony.payment_outbox_pending p
                  where p.rail_type = p_rail_type
                    and (p.unsettled or p.attempt_count > 0 or p.lease_token is not null
                         or exists (select 1 from symphony.payment_outbox_holds h
                                     where h.outbox_id = p.outbox_id and h.calls > 0))) then
    raise exception 'payments of rail % are known as %, not as %, and some that may be known are open: settle them first; where only the address of the same provider changed, say provider in the rail''s file',
      p_rail_type, v_known, p_key_forms
      using errcode = '55006';
  end if;
  -- A running host keeps its rail file: it would pay under the old key forms, and the others would ask under the new.
  if v_known <> p_key_forms
     and exists (select 1
                   from symphony.relay_hosts h
                  where p_rail_type = any (h.rails) and h.seen_at > symphony.clock() - interval '1 minute') then
    raise exception 'payments of rail % are known as %, not as %, and a host served it within the last minute: stop its hosts first',
      p_rail_type, v_known, p_key_forms
      using errcode = '55006';
  end if;
  if p_deduplicates is null or p_hand_over_marks is null or not (p_deduplicates or p_hand_over_marks)
     or p_sla_seconds <= 0 or p_rate_per_second <= 0 or p_burst <= 0
     or (p_rate_per_second is null) <> (p_burst is null) then
    raise exception 'rail %: it must deduplicate or keep hand-over marks, rate and burst come together, and limits are positive', p_rail_type
      using errcode = '22023';
  end if;
  insert into symphony.rails as r
         (rail_type, deduplicates, hand_over_marks, sla_seconds, rate_per_second, burst, key_forms, changed_at)
  values (p_rail_type, p_deduplicates, p_hand_over_marks, p_sla_seconds, p_rate_per_second, p_burst, p_key_forms, symphony.clock())
  on conflict (rail_type) do update
    set deduplicates = excluded.deduplicates, hand_over_marks = excluded.hand_over_marks,
        sla_seconds = excluded.sla_seconds, rate_per_second = excluded.rate_per_second, burst = excluded.burst,
        key_forms = coalesce(excluded.key_forms, r.key_forms), changed_at = excluded.changed_at
  where (r.deduplicates, r.hand_over_marks, r.sla_seconds, r.rate_per_second, r.burst, r.key_forms)
        is distinct from
        (excluded.deduplicates, excluded.hand_over_marks, excluded.sla_seconds, excluded.rate_per_second, excluded.burst,
         coalesce(excluded.key_forms, r.key_forms));
  if found then
    perform symphony.note_act('configure_rail', p_rail_type, p_by, p_why, jsonb_build_object(
      'deduplicates', p_deduplicates, 'hand_over_marks', p_hand_over_marks, 'sla_seconds', p_sla_seconds,
      'rate_per_second', p_rate_per_second, 'burst', p_burst, 'key_forms', p_key_forms));
  end if;
end
$$;

comment on function symphony.configure_rail(text, boolean, boolean, int, int, int, text, text, text) is
  'What the database must know of a rail, from its configuration. Writes nothing where nothing changes.';

grant execute on function symphony.configure_rail(text, boolean, boolean, int, int, int, text, text, text)
  to symphony_operator;
