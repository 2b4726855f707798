create or replace function symphony.payments_of_key(p_rail_type text, p_prefix text) returns setof uuid
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
            -- A callback may come before the reply to the request is written down,
            select i.id
              from symphony.payment_outbox_claims c
             cross join lateral unnest(c.outbox_ids) as i(id)
             where c.rail_type = p_rail_type
            union
            -- or long after.
            select a.outbox_id
              from symphony.payment_outbox_attempts a
             where a.key_prefix = left(p_prefix, 12) and a.rail_type = p_rail_type) w
     where length(p_prefix) >= 12
       and left(encode(sha256(convert_to(w.outbox_id::text, 'UTF8')), 'hex'), length(p_prefix)) = p_prefix
     limit 10
  $$;

comment on function symphony.payments_of_key(text, text) is
  'Payments of a rail whose key begins with these hexadecimal digits, for rails that name a payment by its key alone. It looks at all payments that are leased, held, tried or unsettled, about a millisecond for a thousand; those with a verdict are found by an index.';

grant execute on function symphony.payments_of_key(text, text)
  to symphony_executor;
