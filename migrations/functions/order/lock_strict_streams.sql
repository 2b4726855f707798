-- Called under the planner settings of reconcile_parking alone.
create or replace function symphony.lock_strict_streams() returns text[]
  language plpgsql
  as $$
begin
  return array(
    select s.participant_id
      from symphony.participants s
     where s.strict_order and s.state = 'ACTIVE'
       and (select count(*) from (select 1 from symphony.payment_outbox_pending p
                                   where p.participant_id = s.participant_id and not p.parked limit 2) two) = 2
       and pg_try_advisory_xact_lock(symphony.stream_lock(s.participant_id)));
end
$$;

comment on function symphony.lock_strict_streams() is
  'Locks the strictly ordered streams of which two rows wait unparked, and names them. One whose lock is taken is left for the next call.';
