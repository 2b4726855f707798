-- Which functions and views this schema has, and as which build brought them.
set local role symphony_control;

create table symphony.schema_functions (
  name       text collate "C" primary key,
  checksum   bytea not null check (octet_length(checksum) = 32),
  held       bytea not null check (octet_length(held) = 32),
  release    text not null,
  applied_at timestamptz not null default pg_catalog.clock_timestamp()
);

comment on table symphony.schema_functions is
  'The files of migrations/functions as they were applied last: one row per function or view.';
comment on column symphony.schema_functions.checksum is 'SHA-256 of the file.';
comment on column symphony.schema_functions.held is
  'SHA-256 of what the server made of it. Where it is another today, somebody changed the function by hand.';
comment on column symphony.schema_functions.release is 'The version of railhost that applied it.';

reset role;
