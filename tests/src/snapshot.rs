//! The schema as text, the same on every supported server, so that a change of it is seen in review.

use outbox::SchemaName;
use sqlx::PgConnection;

use crate::sql::column;

/// One line per object of the schema, in a fixed order. The months of the history appear once, as `YYYYMM`.
pub async fn schema(connection: &mut PgConnection) -> String {
    of(connection, &SchemaName::default()).await
}

/// The same of a schema of another name.
pub async fn of(connection: &mut PgConnection, schema: &SchemaName) -> String {
    let mut text = String::new();
    for (title, sql) in PARTS {
        text.push_str(&format!("# {title}\n"));
        let mut lines: Vec<String> = column(&mut *connection, &schema.rewrite(sql))
            .await
            .iter()
            .map(|line: &String| one_month(line))
            .collect();
        lines.sort();
        lines.dedup();
        for line in lines {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

/// What differs, line by line; nothing if the texts are the same.
pub fn difference(committed: &str, found: &str) -> String {
    let missing = committed.lines().filter(|line| !found.lines().any(|other| other == *line));
    let added = found.lines().filter(|line| !committed.lines().any(|other| other == *line));
    missing.map(|line| format!("- {line}\n")).chain(added.map(|line| format!("+ {line}\n"))).collect()
}

/// The name of a partition without its month.
fn one_month(line: &str) -> String {
    const PREFIX: &str = "payment_outbox_attempts_2";
    let mut parts = line.split(PREFIX);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("payment_outbox_attempts_YYYYMM");
        text.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    text
}

const PARTS: [(&str, &str); 10] = [
    (
        "schema: owner, comment",
        "select format('%s: %s, %s', nspname, pg_get_userbyid(nspowner), obj_description(oid, 'pg_namespace'))
           from pg_namespace where nspname = 'symphony'",
    ),
    (
        "types",
        "select format('%s: enum %s', t.typname, string_agg(e.enumlabel, ', ' order by e.enumsortorder))
           from pg_type t join pg_enum e on e.enumtypid = t.oid
          where t.typnamespace = 'symphony'::regnamespace group by t.typname",
    ),
    (
        "tables and views: kind, owner, partition key, storage settings",
        "select format('%s: %s of %s%s%s', c.relname,
                       case c.relkind when 'r' then 'table' when 'p' then 'partitioned table' else 'view' end,
                       pg_get_userbyid(c.relowner), ' by ' || pg_get_partkeydef(c.oid),
                       ' with (' || array_to_string(array(select unnest(c.reloptions) order by 1), ', ') || ')')
           from pg_class c where c.relnamespace = 'symphony'::regnamespace and c.relkind in ('r', 'p', 'v')",
    ),
    (
        "columns: type, collation, nullability, default",
        "select format('%s.%s: %s%s%s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                       case when a.attcollation not in (0, 100) then ' collate ' || quote_ident(l.collname) end,
                       case when a.attnotnull then ' not null' end, ' default ' || pg_get_expr(d.adbin, d.adrelid),
                       case a.attidentity when 'a' then ' generated always as identity' when 'd' then ' identity' end)
           from pg_attribute a
           join pg_class c on c.oid = a.attrelid
           left join pg_collation l on l.oid = a.attcollation
           left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
          where c.relnamespace = 'symphony'::regnamespace and c.relkind in ('r', 'p', 'v')
            and a.attnum > 0 and not a.attisdropped",
    ),
    (
        // Since 18 NOT NULL is a constraint of its own; the columns say it already.
        "constraints",
        "select format('%s.%s: %s', c.relname, o.conname, pg_get_constraintdef(o.oid))
           from pg_constraint o join pg_class c on c.oid = o.conrelid
          where c.relnamespace = 'symphony'::regnamespace and o.contype in ('c', 'p', 'u', 'f', 'x')",
    ),
    (
        "indexes",
        "select pg_get_indexdef(i.indexrelid) from pg_index i join pg_class c on c.oid = i.indrelid
          where c.relnamespace = 'symphony'::regnamespace",
    ),
    (
        "triggers",
        "select format('%s%s', pg_get_triggerdef(t.oid), case when t.tgenabled <> 'O' then ' (' || t.tgenabled::text || ')' end)
           from pg_trigger t join pg_class c on c.oid = t.tgrelid
          where c.relnamespace = 'symphony'::regnamespace and not t.tgisinternal",
    ),
    (
        "functions: result, kind, settings",
        "select format('%s(%s): %s, %s %s%s%s%s%s, owner %s', p.proname, pg_get_function_arguments(p.oid),
                       pg_get_function_result(p.oid), l.lanname,
                       case p.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
                       case when p.proisstrict then ' strict' end, case when p.prosecdef then ' security definer' end,
                       case p.proparallel when 's' then ' parallel safe' end,
                       ', set ' || array_to_string(array(select unnest(p.proconfig) order by 1), ', set '),
                       pg_get_userbyid(p.proowner))
           from pg_proc p join pg_language l on l.oid = p.prolang
          where p.pronamespace = 'symphony'::regnamespace",
    ),
    (
        "grants",
        "select format('%s: %s to %s%s', g.name, lower(a.privilege_type),
                       case when a.grantee = 0 then 'public' else pg_get_userbyid(a.grantee) end,
                       case when a.is_grantable then ' with grant option' end)
           from (select 'schema ' || nspname, nspacl, nspowner from pg_namespace where nspname = 'symphony'
                 union all
                 select relname, relacl, relowner from pg_class where relnamespace = 'symphony'::regnamespace
                 union all
                 select p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', p.proacl, p.proowner
                   from pg_proc p where p.pronamespace = 'symphony'::regnamespace) as g(name, acl, owner)
          cross join aclexplode(g.acl) a
          where a.grantee <> g.owner",
    ),
    (
        "default privileges",
        "select format('%s: %s', pg_get_userbyid(d.defaclrole), d.defaclacl::text) from pg_default_acl d",
    ),
];
