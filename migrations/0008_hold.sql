-- What a holder does while it holds, and how a host makes itself known. Rows are locked in the order of their ids, here as
-- in the completion, so that two batches with common rows cannot wait for each other: each list is sorted first, and a
-- nested loop, the only join that is left to the planner, goes through it in its order.
set local role symphony_control;

create function symphony.extend_outbox_leases(
  p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_lease_seconds double precision)
  returns table (outbox_id uuid, lease_expires_at timestamptz)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_lease_arguments(1, p_worker_id, p_lease_seconds);
  perform symphony.check_held(p_worker_id, p_outbox_ids, p_lease_tokens);
  return query
    with work as materialized (
      select t.id, t.token from unnest(p_outbox_ids, p_lease_tokens) as t(id, token) order by t.id
    )
    update symphony.payment_outbox_pending p
       set lease_expires_at = greatest(p.lease_expires_at, v_now + make_interval(secs => p_lease_seconds))
      from work t
     where p.outbox_id = any (array[t.id]) and p.lease_token = t.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now
    returning p.outbox_id, p.lease_expires_at;
end
$$;

comment on function symphony.extend_outbox_leases(text, uuid[], uuid[], double precision) is
  'The heartbeat of long calls. A row missing from the answer is no longer ours.';

create function symphony.release_outbox_leases(p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[])
  returns table (outbox_id uuid)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_held(p_worker_id, p_outbox_ids, p_lease_tokens);
  return query
    with work as materialized (
      select t.id, t.token from unnest(p_outbox_ids, p_lease_tokens) as t(id, token) order by t.id
    )
    update symphony.payment_outbox_pending p
       set claimed_by = null, lease_token = null, lease_expires_at = null
      from work t
     where p.outbox_id = any (array[t.id]) and p.lease_token = t.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now
       -- The mark of an earlier lease says nothing of this one, which was taken to ask.
       and (p.handed_over_at is null or p.handed_over_at < p.claimed_at)
    returning p.outbox_id;
  if found then
    perform symphony.ring();
  end if;
end
$$;

comment on function symphony.release_outbox_leases(text, uuid[], uuid[]) is
  'Hands back rows that were leased and provably never given to a rail under this lease: no attempt, no delay. A row that it marked as handed over is kept.';

create function symphony.mark_handed_over(p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[])
  returns table (outbox_id uuid, handed_over_at timestamptz)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_held(p_worker_id, p_outbox_ids, p_lease_tokens);
  return query
    with work as materialized (
      select t.id, t.token from unnest(p_outbox_ids, p_lease_tokens) as t(id, token) order by t.id
    )
    update symphony.payment_outbox_pending p
       -- Of this lease, whatever an earlier one left and wherever the clock went since.
       set handed_over_at = case when p.handed_over_at >= p.claimed_at then p.handed_over_at
                                 else greatest(v_now, p.claimed_at) end
      from work t
     where p.outbox_id = any (array[t.id]) and p.lease_token = t.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now
    returning p.outbox_id, p.handed_over_at;
end
$$;

comment on function symphony.mark_handed_over(text, uuid[], uuid[]) is
  'To be committed before the first byte leaves, on rails that keep marks. A row missing from the answer must not be sent.';

create function symphony.keep_captured(
  p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_values jsonb[], p_late boolean default false)
  returns table (outbox_id uuid)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_held(p_worker_id, p_outbox_ids, p_lease_tokens);
  if cardinality(p_values) is distinct from cardinality(p_outbox_ids)
     or exists (select 1 from unnest(p_values) as t(given)
                 where t.given is null or jsonb_typeof(t.given) <> 'object' or length(t.given::text) > 16384) then
    raise exception 'each payment needs what was captured, as an object of at most 16384 characters' using errcode = '22023';
  end if;
  -- What the rail said of a payment that was sent is true also after the lease was lost: the next holder starts from it. What was
  -- merely prepared is not: the next holder may have prepared and paid since.
  insert into symphony.payment_outbox_captures (outbox_id, name, lease_token, value, captured_at)
  select t.id, v.key, t.token, v.value, v_now
    from unnest(p_outbox_ids, p_lease_tokens, p_values) as t(id, token, given)
   cross join lateral jsonb_each_text(t.given) as v(key, value)
   where exists (select 1 from symphony.payment_outbox_pending p
                  where p.outbox_id = any (array[t.id])
                    and (p_late or p.lease_token = t.token and p.claimed_by = p_worker_id and p.lease_expires_at > v_now))
  on conflict (outbox_id, name, lease_token) do nothing;
  return query
    select p.outbox_id
      from unnest(p_outbox_ids, p_lease_tokens) as t(id, token)
      join symphony.payment_outbox_pending p
        on p.outbox_id = any (array[t.id]) and p.lease_token = t.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now;
end
$$;

comment on function symphony.keep_captured(text, uuid[], uuid[], jsonb[], boolean) is
  'Keeps what was read in replies for later requests; to be committed before the next request leaves. p_late: of a request that paid or asked, whose lease may be over. A row missing from the answer is no longer ours: nothing more may be sent.';

create function symphony.hold_outbox_leases(
  p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_delay_seconds double precision[],
  p_error_codes text[], p_rail_codes text[], p_messages text[], p_adapter_digests bytea[] default null)
  returns table (outbox_id uuid)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_held(p_worker_id, p_outbox_ids, p_lease_tokens);
  if cardinality(p_outbox_ids) <> any (array[cardinality(p_delay_seconds), cardinality(p_error_codes),
                                             cardinality(p_rail_codes), cardinality(p_messages),
                                             cardinality(p_adapter_digests)]) then
    raise exception 'the arrays of a batch must be of one length' using errcode = '22023';
  end if;
  if exists (select 1 from unnest(p_delay_seconds) as t(delay) where t.delay not between 0 and 2678400)
     or exists (select 1 from unnest(p_adapter_digests) as t(digest) where octet_length(t.digest) <> 32) then
    raise exception 'a hold needs a delay between 0 and 2678400 seconds and, if any, a digest of 32 bytes'
      using errcode = '22023';
  end if;
  return query
    with work as materialized (
      select t.*
        from unnest(p_outbox_ids, p_lease_tokens, p_delay_seconds, p_error_codes, p_rail_codes, p_messages,
                    p_adapter_digests)
             as t(id, token, delay, error_code, rail_code, message, digest)
       order by t.id
    ),
    freed as (
      update symphony.payment_outbox_pending p
         set claimed_by = null, lease_token = null, lease_expires_at = null,
             handed_over_at = case when p.unsettled then p.handed_over_at end,
             next_attempt_at = v_now + make_interval(secs => coalesce(t.delay, 1))
        from work t
       where p.outbox_id = any (array[t.id]) and p.lease_token = t.token and p.claimed_by = p_worker_id
         and p.lease_expires_at > v_now
      returning p.outbox_id, p.rail_type, t.error_code, t.rail_code, t.message, t.digest
    )
    insert into symphony.payment_outbox_holds as h
           (outbox_id, first_held_at, last_held_at, rail_type, worker_id, error_code, rail_code, error_message,
            adapter_digest, calls)
    select f.outbox_id, v_now, v_now, f.rail_type, p_worker_id, left(f.error_code, 256), left(f.rail_code, 256),
           left(f.message, 2000), f.digest, num_nonnulls(f.digest)
      from freed f
    on conflict (outbox_id) do update
      set times = h.times + 1, last_held_at = excluded.last_held_at, rail_type = excluded.rail_type,
          worker_id = excluded.worker_id, error_code = excluded.error_code, rail_code = excluded.rail_code,
          error_message = excluded.error_message, adapter_digest = excluded.adapter_digest,
          calls = h.calls + excluded.calls
    returning h.outbox_id;
end
$$;

comment on function symphony.hold_outbox_leases(text, uuid[], uuid[], double precision[], text[], text[], text[], bytea[]) is
  'Ends leases whose payments met a hold: no attempt is written and none is used up, the payment is due again after its delay, and payment_outbox_holds says why. One without a digest never met the rail: the host held it back. A row missing from the answer had lost its lease.';

create function symphony.hand_back_unknown_leases(p_worker_id text, p_known_tokens uuid[])
  returns table (outbox_id uuid)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  as $$
#variable_conflict use_column
begin
  perform symphony.check_lease_arguments(1, p_worker_id, 1);
  if p_known_tokens is null or array_position(p_known_tokens, null) is not null then
    raise exception 'the known tokens must be given, and none of them null' using errcode = '22023';
  end if;
  return query
    with work as materialized (
      select i.id, c.lease_token as token
        from symphony.payment_outbox_claims c
       cross join lateral unnest(c.outbox_ids) as i(id)
       where c.claimed_by = p_worker_id and c.lease_token <> all (p_known_tokens)
       order by i.id
    )
    update symphony.payment_outbox_pending p
       set claimed_by = null, lease_token = null, lease_expires_at = null
      from work t
     where p.outbox_id = any (array[t.id]) and p.lease_token = t.token and p.claimed_by = p_worker_id
       and (p.handed_over_at is null or p.handed_over_at < p.claimed_at)
       -- A lease that was heard of after its end was given to a rail, whatever its holder has forgotten since.
       and not exists (select 1 from symphony.payment_outbox_late_answers l
                        where l.outbox_id = t.id and l.lease_token = t.token)
    returning p.outbox_id;
  if found then
    perform symphony.ring();
  end if;
end
$$;

comment on function symphony.hand_back_unknown_leases(text, uuid[]) is
  'Frees what was leased in this worker''s name by a claim whose answer never reached it: no attempt, no delay, also after its end, for who never heard of a lease has sent nothing under it. The known tokens are all that the host has heard of and not ended; it must not call while an answer to a claim may still arrive.';

create function symphony.hint_payment(p_rail_type text, p_outbox_id uuid, p_settles boolean default false) returns boolean
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_now timestamptz := symphony.clock();
begin
  if p_rail_type is null or p_outbox_id is null then
    raise exception 'a hint names a rail and a payment' using errcode = '22023';
  end if;
  update symphony.payment_outbox_pending p
     set next_attempt_at = v_now
   where p.outbox_id = p_outbox_id and p.rail_type = p_rail_type
     and p.unsettled and p.lease_token is null and p.next_attempt_at > v_now
     and (p_settles or p.attempt_count < 10);
  if not found then
    return false;
  end if;
  perform symphony.ring();
  return true;
end
$$;

comment on function symphony.hint_payment(text, uuid, boolean) is
  'A rail let us know that it has news of a payment: the question that is scheduled about it falls due now. It changes nothing else, and nothing of a payment that is leased, settled or unsent. Half of the attempts are out of its reach, so that no number of hints uses them up; but for p_settles: an answer is kept, and nothing will be asked.';

create function symphony.called_payment(p_rail_type text, p_outbox_id uuid)
  returns table (instruction_id text, participant_id text, sequence_id bigint, payload jsonb, state text, money_moved text)
  language sql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select p.instruction_id, p.participant_id, p.sequence_id, p.payload, 'PENDING', 'unknown'
      from symphony.payment_outbox_pending p
     where p.outbox_id = p_outbox_id and p.rail_type = p_rail_type
    union all
    select a.instruction_id, a.participant_id, a.sequence_id, a.payload, a.state::text, a.money_moved
      from symphony.payment_outbox_attempts a
     where a.outbox_id = p_outbox_id and a.rail_type = p_rail_type and a.state in ('DISPATCHED', 'FAILED')
       and a.payload is not null
  $$;

comment on function symphony.called_payment(text, uuid) is
  'A payment that a rail speaks of unasked, with what is known of it.';

create function symphony.callback_is_known(p_token uuid) returns boolean
  language sql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select exists (select 1 from symphony.payment_outbox_late_answers l where l.lease_token = p_token and l.of_key)
  $$;

comment on function symphony.callback_is_known(uuid) is
  'Whether these very words of a rail were kept before, for whichever payment.';

create function symphony.payments_of_key(p_rail_type text, p_prefix text) returns setof uuid
  language sql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select w.outbox_id
      from (select p.outbox_id
              from symphony.payment_outbox_pending p
             where p.rail_type = p_rail_type and p.unsettled
            union
            select p.outbox_id
              from symphony.payment_outbox_pending p
             where p.rail_type = p_rail_type and not p.unsettled and not p.parked and p.attempt_count > 0
            union
            select h.outbox_id
              from symphony.payment_outbox_holds h
              join symphony.payment_outbox_pending p on p.outbox_id = h.outbox_id
             where p.rail_type = p_rail_type and h.calls > 0
            union
            -- A rail may speak before its reply was written down.
            select i.id
              from symphony.payment_outbox_claims c
             cross join lateral unnest(c.outbox_ids) as i(id)
             where c.rail_type = p_rail_type
            union
            -- Or long after.
            select a.outbox_id
              from symphony.payment_outbox_attempts a
             where a.key_prefix = left(p_prefix, 12) and a.rail_type = p_rail_type) w
     where length(p_prefix) >= 12
       and left(encode(sha256(convert_to(w.outbox_id::text, 'UTF8')), 'hex'), length(p_prefix)) = p_prefix
     limit 10
  $$;

comment on function symphony.payments_of_key(text, text) is
  'Payments of a rail whose key begins with these hexadecimal digits: for a rail that names a payment by its key alone. All that are on their way or wait for an answer are looked at, about a millisecond for a thousand of them; those with a verdict are found by an index.';

create function symphony.next_due_at(p_rails text[] default null) returns timestamptz
  language plpgsql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_now timestamptz := symphony.clock();
begin
  return (
    select min(d.at)
      from unnest(coalesce(p_rails, array(select symphony.rails_with_work()))) as r(rail_type)
     cross join lateral (
           select least(
             (select min(p.next_attempt_at) from symphony.payment_outbox_pending p
               where p.rail_type = r.rail_type and not p.unsettled and not p.parked and p.next_attempt_at > v_now),
             (select min(p.next_attempt_at) from symphony.payment_outbox_pending p
               where p.rail_type = r.rail_type and p.unsettled and p.next_attempt_at > v_now)) as at) d);
end
$$;

comment on function symphony.next_due_at(text[]) is
  'When the next scheduled row of these rails falls due; null if none is scheduled. What is due already is for the claim to say.';

create function symphony.stopped() returns table (rails text[], participants text[], revoked bytea[])
  language sql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select array(select r.rail_type from symphony.rails r where r.state = 'PAUSED' order by r.rail_type),
           array(select s.participant_id from symphony.participants s where s.state = 'SUSPENDED' order by s.participant_id),
           array(select a.digest from symphony.revoked_adapters a order by a.digest)
  $$;

comment on function symphony.stopped() is
  'Paused rails and suspended participants, whose payments a host that leased them before must not hand over any more, and the digests of components that it must not run any more.';

create function symphony.stop_rail(p_rail_type text, p_worker_id text, p_why text) returns boolean
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_lease_arguments(1, p_worker_id, 1);
  if p_rail_type is null or length(p_rail_type) not between 1 and 64 then
    raise exception 'rail_type must have 1 to 64 characters' using errcode = '22023';
  end if;
  insert into symphony.rails as r (rail_type, state, changed_at)
  values (p_rail_type, 'PAUSED', symphony.clock())
  on conflict (rail_type) do update
    set state = excluded.state, changed_at = excluded.changed_at
  where r.state <> 'PAUSED';
  if not found then
    return false;
  end if;
  perform symphony.note_act('stop_rail', p_rail_type, p_worker_id, coalesce(nullif(left(p_why, 2000), ''), 'no reason given'));
  perform symphony.ring();
  return true;
end
$$;

comment on function symphony.stop_rail(text, text, text) is
  'A host pauses a rail that only a person can set right (a wrong PIN, an adapter that alters money), until a person resumes it. False if it was paused already.';

create function symphony.note_rail_load(
  p_worker_id text, p_rail_type text, p_outcome text, p_component_digest bytea, p_rail_digest bytea, p_detail text)
  returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  perform symphony.check_lease_arguments(1, p_worker_id, 1);
  if p_rail_type is null or length(p_rail_type) not between 1 and 64 then
    raise exception 'rail_type must have 1 to 64 characters' using errcode = '22023';
  end if;
  if p_outcome is null or p_outcome not in ('LOADED', 'REFUSED', 'REVOKED') then
    raise exception 'outcome must be LOADED, REFUSED or REVOKED, not %', coalesce(p_outcome, 'null') using errcode = '22023';
  end if;
  if octet_length(p_component_digest) <> 32 or octet_length(p_rail_digest) <> 32 then
    raise exception 'a digest must have 32 bytes' using errcode = '22023';
  end if;
  perform symphony.note_act('load_rail', p_rail_type, p_worker_id,
                            coalesce(nullif(left(p_detail, 2000), ''), lower(p_outcome)),
                            jsonb_strip_nulls(jsonb_build_object(
                              'outcome', p_outcome, 'component_digest', encode(p_component_digest, 'hex'),
                              'rail_digest', encode(p_rail_digest, 'hex'))));
end
$$;

comment on function symphony.note_rail_load(text, text, text, bytea, bytea, text) is
  'A host took a rail into service, refused it, or dropped it because its component was revoked: one act, with the digests of component and rail file.';

create function symphony.report_host(p_worker_id text, p_rails text[], p_asleep boolean, p_digests jsonb default null)
  returns void
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_lease_arguments(1, p_worker_id, 1);
  if p_rails is null or p_asleep is null or cardinality(p_rails) > 1000 then
    raise exception 'rails (at most 1000) and asleep must be given' using errcode = '22023';
  end if;
  if jsonb_typeof(p_digests) <> 'object' or octet_length(p_digests::text) > 262144 then
    raise exception 'digests must be a JSON object of at most 262144 bytes' using errcode = '22023';
  end if;
  insert into symphony.relay_hosts as h (worker_id, rails, asleep, seen_at, digests)
  values (p_worker_id, p_rails, p_asleep, v_now, p_digests)
  on conflict (worker_id) do update
    set rails = excluded.rails, asleep = excluded.asleep, seen_at = excluded.seen_at, digests = excluded.digests;
  delete from symphony.relay_hosts h where h.seen_at < v_now - interval '1 hour';
end
$$;

comment on function symphony.report_host(text, text[], boolean, jsonb) is
  'A host says that it lives, what it serves (and in which version, by rail) and whether it sleeps; to be repeated every 20 seconds or so.';

create function symphony.other_hosts(p_worker_id text) returns table (worker_id text, digests jsonb)
  language sql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select h.worker_id, h.digests
      from symphony.relay_hosts h
     where h.worker_id <> p_worker_id and h.seen_at > symphony.clock() - interval '1 minute'
     order by h.worker_id
  $$;

comment on function symphony.other_hosts(text) is
  'The other hosts that reported within the last minute, and what they run: where it differs, two versions serve side by side.';

create function symphony.retire_host(p_worker_id text) returns void
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$ delete from symphony.relay_hosts where worker_id = p_worker_id $$;

comment on function symphony.retire_host(text) is 'A host leaves in good order.';

reset role;
