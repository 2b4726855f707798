create or replace function symphony.function_digest(p_name text) returns bytea
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select sha256(convert_to(string_agg(f.text, E'\n' order by f.text), 'UTF8'))
      from (select concat_ws('|', p.proname, p.pronargs, p.proretset, p.prosecdef, p.provolatile, p.proconfig, p.prosrc) as text
              from pg_proc p
             where p.pronamespace = 'symphony'::regnamespace and p.proname = split_part(p_name, '/', 2)
            union all
            -- The text of a view is made anew by each server version.
            select 'view'
              from pg_class c
             where c.relnamespace = 'symphony'::regnamespace and c.relkind = 'v' and c.relname = split_part(p_name, '/', 2)) f
  $$;

comment on function symphony.function_digest(text) is
  'What the server has under this name (room/name), as a digest: body, settings and rights of a function; of a view only that it is there. Null where nothing is.';

grant execute on function symphony.function_digest(text)
  to symphony_readonly, symphony_auditor, symphony_executor, symphony_operator;
