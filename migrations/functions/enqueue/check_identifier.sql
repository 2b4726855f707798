create or replace function symphony.check_identifier(p_name text, p_value text, p_chars_max int) returns void
  language plpgsql immutable
  set search_path = pg_catalog, symphony, pg_temp
  as $$
declare
  v_problem text := symphony.identifier_problem(p_name, p_value);
begin
  if p_value is null or length(p_value) not between 1 and p_chars_max then
    raise exception '% must have 1 to % characters', p_name, p_chars_max using errcode = '22023';
  end if;
  if v_problem is not null then
    raise exception '%', v_problem using errcode = '22023';
  end if;
end
$$;

comment on function symphony.check_identifier(text, text, int) is
  'The rule of enqueue for names of rails and participants. A switch under a name that no payment can have would do nothing.';
