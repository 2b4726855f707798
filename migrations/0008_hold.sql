-- What a holder does while it holds, and how a host makes itself known.
set local role symphony_control;

create function symphony.extend_outbox_leases(
  p_worker_id text, p_outbox_ids uuid[], p_lease_tokens uuid[], p_lease_seconds double precision)
  returns table (outbox_id uuid, lease_expires_at timestamptz)
  language plpgsql security definer
  set search_path = pg_catalog, symphony, pg_temp
  set enable_seqscan = off
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_lease_arguments(1, p_worker_id, p_lease_seconds);
  perform symphony.check_held(p_worker_id, p_outbox_ids, p_lease_tokens);
  return query
    update symphony.payment_outbox_pending p
       set lease_expires_at = greatest(p.lease_expires_at, v_now + make_interval(secs => p_lease_seconds))
      from unnest(p_outbox_ids, p_lease_tokens) as t(id, token)
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
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_held(p_worker_id, p_outbox_ids, p_lease_tokens);
  return query
    update symphony.payment_outbox_pending p
       set claimed_by = null, lease_token = null, lease_expires_at = null
      from unnest(p_outbox_ids, p_lease_tokens) as t(id, token)
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
  as $$
#variable_conflict use_column
declare
  v_now timestamptz := symphony.clock();
begin
  perform symphony.check_held(p_worker_id, p_outbox_ids, p_lease_tokens);
  return query
    update symphony.payment_outbox_pending p
       -- Of this lease, whatever an earlier one left and wherever the clock went since.
       set handed_over_at = case when p.handed_over_at >= p.claimed_at then p.handed_over_at
                                 else greatest(v_now, p.claimed_at) end
      from unnest(p_outbox_ids, p_lease_tokens) as t(id, token)
     where p.outbox_id = any (array[t.id]) and p.lease_token = t.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now
    returning p.outbox_id, p.handed_over_at;
end
$$;

comment on function symphony.mark_handed_over(text, uuid[], uuid[]) is
  'To be committed before the first byte leaves, on rails that keep marks. A row missing from the answer must not be sent.';

create function symphony.hint_payment(p_rail_type text, p_outbox_id uuid) returns boolean
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
     and p.attempt_count < 10;
  if not found then
    return false;
  end if;
  perform symphony.ring();
  return true;
end
$$;

comment on function symphony.hint_payment(text, uuid) is
  'A rail let us know that it has news of a payment: the question that is scheduled about it falls due now. It changes nothing else, and nothing of a payment that is leased, settled or unsent. Half of the attempts are out of its reach, so that no number of hints uses them up.';

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

create function symphony.stopped() returns table (rails text[], participants text[])
  language sql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select array(select r.rail_type from symphony.rails r where r.state = 'PAUSED' order by r.rail_type),
           array(select s.participant_id from symphony.participants s where s.state = 'SUSPENDED' order by s.participant_id)
  $$;

comment on function symphony.stopped() is
  'Paused rails and suspended participants: what a host that leased one of theirs before must not hand over any more.';

create function symphony.report_host(p_worker_id text, p_rails text[], p_asleep boolean) returns void
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
  insert into symphony.relay_hosts as h (worker_id, rails, asleep, seen_at)
  values (p_worker_id, p_rails, p_asleep, v_now)
  on conflict (worker_id) do update
    set rails = excluded.rails, asleep = excluded.asleep, seen_at = excluded.seen_at;
  delete from symphony.relay_hosts h where h.seen_at < v_now - interval '1 hour';
end
$$;

comment on function symphony.report_host(text, text[], boolean) is
  'A host says that it lives, what it serves and whether it sleeps; to be repeated every 20 seconds or so.';

create function symphony.retire_host(p_worker_id text) returns void
  language sql security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$ delete from symphony.relay_hosts where worker_id = p_worker_id $$;

comment on function symphony.retire_host(text) is 'A host leaves in good order.';

reset role;
