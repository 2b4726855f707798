create or replace function symphony.stopped() returns table (rails text[], participants text[], revoked bytea[])
  language sql stable security definer
  set search_path = pg_catalog, symphony, pg_temp
  as $$
    select array(select r.rail_type from symphony.rails r where r.state = 'PAUSED' order by r.rail_type),
           array(select s.participant_id from symphony.participants s where s.state = 'SUSPENDED' order by s.participant_id),
           array(select a.digest from symphony.revoked_adapters a order by a.digest)
  $$;

comment on function symphony.stopped() is
  'Paused rails, suspended participants and the digests of revoked components. A host must not hand over payments of the first two, even if it leased them before, and must not run the third.';

grant execute on function symphony.stopped()
  to symphony_executor;
