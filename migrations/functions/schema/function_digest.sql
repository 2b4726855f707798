create or replace function symphony.function_digest(p_name text) returns bytea
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select sha256(convert_to(string_agg(f.text, E'\n' order by f.text), 'UTF8'))
      from (select concat_ws('|', p.proname, pg_get_function_arguments(p.oid), p.proretset, p.prosecdef, p.provolatile,
                             p.proconfig, p.proowner::regrole, g.granted, p.prosrc) as text
              from pg_proc p
             -- What a team grants to a role of its own is its own affair.
             cross join lateral (
               select string_agg(t.name, ',' order by t.name) as granted
                 from (select a.grantee::regrole::text as name
                         from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a) t
                where t.name = '-' or t.name like 'symphony\_%') g
             where p.pronamespace = 'symphony'::regnamespace and p.proname = split_part(p_name, '/', 2)
            union all
            -- The text of a view is made anew by each server version.
            select 'view'
              from pg_class c
             where c.relnamespace = 'symphony'::regnamespace and c.relkind = 'v' and c.relname = split_part(p_name, '/', 2)) f
  $$;

comment on function symphony.function_digest(text) is
  'What the server has under this name (folder/name), as a digest: arguments, settings, owner, body of a function, and which of our roles may call it; of a view only that it is there. Null where nothing is.';

grant execute on function symphony.function_digest(text)
  to symphony_readonly, symphony_auditor, symphony_executor, symphony_operator;
