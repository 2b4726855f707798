-- Ids carry their time, so that attempts can be partitioned by id and both unique rules stay global.
do $$
begin
  if current_setting('server_version_num')::int >= 180000 then
    create or replace function symphony.uuidv7() returns uuid
      language sql volatile parallel safe
      as $f$ select pg_catalog.uuidv7(symphony.clock_offset()) $f$;
  else
    -- 48 bits of milliseconds, version 7, 12 bits of the millisecond's fraction, variant, 62 random bits:
    -- the same layout as the server's own function since 18. One expression that reads the clock once, because only that
    -- is inlined: microseconds times 4096 / 1000 are both numbers at once, milliseconds and fraction.
    create or replace function symphony.uuidv7() returns uuid
      language sql volatile parallel safe
      as $f$
        select (overlay(lpad(to_hex((extract(epoch from symphony.clock()) * 1000000)::bigint * 512 / 125), 15, '0')
                        placing '7' from 13 for 0)
                || substr(pg_catalog.gen_random_uuid()::text, 20))::uuid
      $f$;
  end if;
end
$$;

comment on function symphony.uuidv7() is
  'A time-ordered id made from symphony.clock(): the server''s own generator on PostgreSQL 18, the same layout before it.';
