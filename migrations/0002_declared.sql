-- The functions that tables name in their defaults and triggers, so that those can be made. What they do stands, as that of all
-- functions, in functions/: `railhost migrate` applies it right after these files, and no host works on a schema without it.
set local role symphony_control;

create function symphony.clock() returns timestamptz
  language sql volatile parallel safe
  as $$ select pg_catalog.clock_timestamp() $$;

create function symphony.uuidv7() returns uuid
  language sql volatile parallel safe
  as $$ select null::uuid $$;

create function symphony.refuse_change() returns trigger
  language plpgsql
  as $$ begin raise exception 'the functions of this schema are not applied: run railhost migrate'; end $$;

reset role;
