create or replace function symphony.refuse_change() returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
begin
  raise exception '% on %.% is refused: it is append-only', tg_op, tg_table_schema, tg_table_name
    using errcode = 'P0001';
end
$$;

comment on function symphony.refuse_change() is 'Refuses every change, also by the owner.';
