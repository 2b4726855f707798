create or replace function symphony.notify_hosts() returns void
  language plpgsql
  set search_path = pg_catalog, symphony, pg_temp
  as $$
begin
  -- A transaction that has notified cannot be prepared.
  if current_setting('symphony.will_prepare', true) = 'on' then
    return;
  end if;
  if exists (select 1 from symphony.relay_hosts
              where asleep and seen_at > symphony.clock() - interval '1 minute') then
    perform pg_notify('outbox_pending', 'new_work');
  end if;
end
$$;

comment on function symphony.notify_hosts() is
  'Notifies the hosts, only while one of them sleeps: a NOTIFY takes a lock of the whole database at commit and halves the rate of many writers. Silent where the caller said "set local symphony.will_prepare = on": then the next poll finds the payment.';
