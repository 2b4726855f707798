create or replace function symphony.lock_payment(p_outbox_id uuid) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
begin
  -- After the lock, the next statement must see what the previous holder did.
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'this needs a transaction in read committed, not %', current_setting('transaction_isolation')
      using errcode = '0A000';
  end if;
  -- The table's oid keeps the locks of two schemas in one database apart.
  perform pg_advisory_xact_lock(hashtextextended(p_outbox_id::text, 'symphony.payment_outbox_pending'::regclass::oid::bigint));
end
$$;

comment on function symphony.lock_payment(uuid) is
  'Locks a payment until the transaction ends, so that late answers, findings, reissues and cancellations come one after another. Each sees what the one before it wrote.';
