//! Functions and views: what the files of `migrations/functions` say, and what the database has of them.

use sha2::{Digest, Sha256};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, Postgres};

use super::Error;
use super::schema::SchemaName;

/// One function or view, with its comment and its grants.
#[derive(Debug)]
struct FunctionFile {
    /// `folder/name`.
    name: &'static str,
    sql: &'static str,
}

const FILES: &[FunctionFile] = include!(concat!(env!("OUT_DIR"), "/functions.rs"));

/// This build.
pub(super) const RELEASE: &str = env!("CARGO_PKG_VERSION");

impl FunctionFile {
    fn checksum(&self) -> Vec<u8> {
        Sha256::digest(self.sql).to_vec()
    }

    /// As the server calls it.
    fn object(&self) -> &'static str {
        self.name.rsplit('/').next().unwrap_or(self.name)
    }

    fn is_view(&self) -> bool {
        self.sql.contains("create or replace view")
    }

    fn names(&self, other: &Self) -> bool {
        self.sql.contains(&format!("symphony.{}", other.object()))
    }
}

/// What the database says of one file.
#[derive(Debug, sqlx::FromRow)]
struct Applied {
    name: String,
    checksum: Vec<u8>,
    release: String,
    is_there: bool,
    /// Nobody changed it since.
    is_as_applied: bool,
}

/// What a run of the functions did, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Changed {
    /// New, or of another build than this one.
    pub applied: Vec<String>,
    /// Changed by hand in the database.
    pub put_back: Vec<String>,
    /// Of another build, and not of this one. They stay where they are until a numbered file drops them.
    pub no_longer_carried: Vec<String>,
}

/// How the functions of the database differ from those of this build.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    missing: Vec<&'static str>,
    of_another_build: Vec<&'static str>,
    by_hand: Vec<&'static str>,
    /// The newest release that applied any.
    release: Option<String>,
}

impl Comparison {
    fn of(applied: &[Applied]) -> Self {
        let mut found = Self {
            release: applied.iter().map(|row| &row.release).max_by_key(|release| version(release)).cloned(),
            ..Self::default()
        };
        for file in FILES {
            // This build cannot put back what it does not carry.
            let Some(row) = applied.iter().find(|row| row.name == file.name && row.is_there) else {
                found.missing.push(file.name);
                continue;
            };
            if row.checksum != file.checksum() {
                found.of_another_build.push(file.name);
            }
            if !row.is_as_applied {
                found.by_hand.push(file.name);
            }
        }
        found
    }

    fn differs(&self, file: &FunctionFile) -> bool {
        [&self.missing, &self.of_another_build, &self.by_hand].iter().any(|names| names.contains(&file.name))
    }

    /// The release, where it is newer than this build.
    pub(super) fn newer_release(&self) -> Option<&str> {
        self.release.as_deref().filter(|release| version(release) > version(RELEASE))
    }

    /// An older build changes nothing in the schema of a newer one.
    pub(super) fn refuse_newer(&self) -> Result<(), Error> {
        self.newer_release().map_or(Ok(()), |newer| {
            Err(Error::Schema(format!(
                "railhost {newer} migrated this schema, and this is {RELEASE}: use railhost {newer} or a newer one"
            )))
        })
    }

    /// What this build calls and the database does not have. A newer build keeps what this one calls.
    pub(super) fn missing(&self) -> Option<String> {
        (self.newer_release().is_none() && !self.missing.is_empty()).then(|| {
            format!("not in the database: {}; run railhost migrate of version {RELEASE}", few(&self.missing))
        })
    }

    /// What is there, and is not what this build carries.
    pub(super) fn changed(&self) -> Vec<String> {
        let mut changed = Vec::new();
        if !self.by_hand.is_empty() {
            changed.push(format!(
                "somebody changed {} in the database by hand; run railhost migrate, which puts back what this build carries",
                self.by_hand.join(", ")
            ));
        }
        if self.newer_release().is_none() && !self.of_another_build.is_empty() {
            changed.push(format!(
                "applied by another build (railhost {}) than this one: {}; run railhost migrate of version {RELEASE}",
                self.release.as_deref().unwrap_or("of no version"),
                few(&self.of_another_build)
            ));
        }
        changed
    }
}

/// The first ones by name, the others by number.
fn few(names: &[&str]) -> String {
    match names {
        [first, second, third, _, ..] => {
            format!("{first}, {second}, {third} and {} more", names.len() - 3)
        }
        _ => names.join(", "),
    }
}

fn version(text: &str) -> Vec<u64> {
    text.split(['.', '-', '+']).take(3).map(|part| part.parse().unwrap_or(0)).collect()
}

/// What differs; everything is missing where there is no schema yet. Where there is none the question is an error to the server:
/// inside a transaction it would end it.
pub(super) async fn compare(connection: &mut PgConnection, schema: &SchemaName) -> Result<Comparison, Error> {
    Ok(Comparison::of(&applied(connection, schema).await?))
}

async fn applied(connection: &mut PgConnection, schema: &SchemaName) -> Result<Vec<Applied>, Error> {
    let sql = schema.rewrite(
        "select f.name, f.checksum, f.release, d.held is not null as is_there, d.held is not distinct from f.held as is_as_applied
           from symphony.schema_functions f
          cross join lateral (select symphony.function_digest(f.name) as held) d
          order by f.name",
    );
    let applied =
        sqlx::query_as(AssertSqlSafe(sql.into_owned())).persistent(false).fetch_all(connection).await;
    match applied.map_err(Error::from) {
        Err(Error::Schema(_)) => Ok(Vec::new()),
        other => other,
    }
}

/// Brings functions and views to what the files say, inside of the caller's transaction. Hosts go on meanwhile: each statement of
/// theirs meets the old function or the new one, and one that is under way may call a new step from an old function. `before` is
/// what was found before the numbered files of this run, which may change functions too: nobody's hands were in those.
pub(super) async fn apply(
    transaction: &mut PgConnection,
    schema: &SchemaName,
    before: &Comparison,
) -> Result<Changed, Error> {
    let begin = "set local role symphony_control; set local check_function_bodies = off";
    sqlx::raw_sql(begin).execute(&mut *transaction).await?;
    // The question what differs now calls it.
    for file in FILES.iter().filter(|file| file.object() == "function_digest" && before.differs(file)) {
        replace(transaction, schema, file).await?;
    }
    let there = applied(&mut *transaction, schema).await?;
    let now = Comparison::of(&there);
    let files = in_order(FILES.iter().filter(|file| before.differs(file) || now.differs(file)).collect());
    let gone = there.iter().filter(|row| !FILES.iter().any(|file| file.name == row.name));
    let no_longer_carried = gone.map(|row| row.name.clone()).collect();
    let mut changed = Changed { no_longer_carried, ..Changed::default() };
    for file in &files {
        replace(transaction, schema, file).await?;
        match before.by_hand.contains(&file.name) {
            true => changed.put_back.push(file.name.to_owned()),
            false => changed.applied.push(file.name.to_owned()),
        }
    }
    record(transaction, schema, &files, &changed.no_longer_carried).await?;
    Ok(changed)
}

async fn replace(
    transaction: &mut PgConnection,
    schema: &SchemaName,
    file: &FunctionFile,
) -> Result<(), Error> {
    // Twice: what was granted before, on whatever the first run made anew, is taken away in between.
    let without_grants = WITHOUT_GRANTS.replace("NAME", file.object());
    for statement in [file.sql, &without_grants, file.sql] {
        let statement = schema.rewrite(statement).into_owned();
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *transaction).await.map_err(|error| {
            Error::Schema(format!("migrations/functions/{}.sql cannot be applied: {error}", file.name))
        })?;
    }
    Ok(())
}

async fn record(
    transaction: &mut PgConnection,
    schema: &SchemaName,
    files: &[&FunctionFile],
    gone: &[String],
) -> Result<(), Error> {
    for file in files {
        ours(schema, RECORD)
            .bind(file.name)
            .bind(file.checksum())
            .bind(RELEASE)
            .execute(&mut *transaction)
            .await?;
    }
    ours(schema, "delete from symphony.schema_functions where name = any ($1)")
        .bind(gone)
        .execute(&mut *transaction)
        .await?;
    // One release for all of them, whatever part of it changed.
    ours(schema, "update symphony.schema_functions set release = $1 where release <> $1")
        .bind(RELEASE)
        .execute(&mut *transaction)
        .await?;
    Ok(())
}

const RECORD: &str = "insert into symphony.schema_functions (name, checksum, held, release)
     values ($1, $2, symphony.function_digest($1), $3)
     on conflict (name) do update
       set checksum = excluded.checksum, held = excluded.held, release = excluded.release, applied_at = excluded.applied_at";

fn ours<'q>(schema: &SchemaName, sql: &str) -> Query<'q, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(schema.rewrite(sql).into_owned())).persistent(false)
}

/// What a file grants is all that is granted on what it makes. An overload of the same name, which hosts of the release before may
/// call, keeps what it has.
const WITHOUT_GRANTS: &str = "do $$
declare
  v_made text;
begin
  for v_made in
    select 'function ' || p.oid::regprocedure::text
      from pg_catalog.pg_proc p
     where p.pronamespace = 'symphony'::regnamespace and p.proname = 'NAME'
       and p.xmin::text::bigint = pg_current_xact_id()::text::bigint % 4294967296
    union all
    select 'table ' || c.oid::regclass::text
      from pg_catalog.pg_class c
     where c.relnamespace = 'symphony'::regnamespace and c.relkind = 'v' and c.relname = 'NAME'
       and c.xmin::text::bigint = pg_current_xact_id()::text::bigint % 4294967296
  loop
    execute 'revoke all on ' || v_made || ' from public, symphony_ingest, symphony_executor, symphony_operator, '
            || 'symphony_readonly, symphony_auditor';
  end loop;
end
$$";

/// Functions first: their bodies are not looked at until they are called. A view comes after those that it names.
fn in_order(files: Vec<&FunctionFile>) -> Vec<&FunctionFile> {
    let (mut views, mut ordered): (Vec<&FunctionFile>, Vec<&FunctionFile>) =
        files.into_iter().partition(|file| file.is_view());
    while !views.is_empty() {
        let waits =
            |view: &FunctionFile| views.iter().any(|other| other.name != view.name && view.names(other));
        // Views that name each other cannot be made: the server will say so of the first.
        let next = views.iter().position(|view| !waits(view)).unwrap_or_default();
        ordered.push(views.swap_remove(next));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied_as_files() -> Vec<Applied> {
        let row = |file: &FunctionFile| Applied {
            name: file.name.to_owned(),
            checksum: file.checksum(),
            release: RELEASE.to_owned(),
            is_there: true,
            is_as_applied: true,
        };
        FILES.iter().map(row).collect()
    }

    #[test]
    fn each_file_holds_one_name_with_its_comment() {
        for file in FILES {
            let object = file.object();
            let makes =
                |kind: &str| file.sql.contains(&format!("create or replace {kind} symphony.{object}"));
            assert!(makes("function") || makes("view"), "{} does not make {object}", file.name);
            let others = FILES.iter().filter(|other| other.name != file.name);
            for other in others {
                let made = format!("create or replace function symphony.{}(", other.object());
                assert!(!file.sql.contains(&made), "{} makes {} too", file.name, other.object());
            }
            let explains = |kind: &str| file.sql.contains(&format!("comment on {kind} symphony.{object}"));
            assert!(explains("function") || explains("view"), "{} has no comment", file.name);
        }
    }

    #[test]
    fn a_view_is_made_after_those_that_it_names() {
        let order: Vec<_> = in_order(FILES.iter().collect()).iter().map(|file| file.name).collect();
        assert_eq!(order.len(), FILES.len());
        let at = |name: &str| order.iter().position(|found| *found == name).expect("it is there");
        assert!(at("read/payments_needing_review") < at("read/payments"));
        assert!(at("wake/notify_hosts") < at("read/blocked_streams"));
    }

    #[test]
    fn a_database_like_this_build_has_no_problems() {
        let comparison = Comparison::of(&applied_as_files());
        assert_eq!((comparison.missing(), comparison.changed()), (None, Vec::new()));
    }

    #[test]
    fn each_difference_is_one_sentence_that_says_what_to_do() {
        let mut applied = applied_as_files();
        applied[0].checksum = vec![0; 32];
        applied[1].is_as_applied = false;
        let (changed, by_hand, gone) =
            (applied[0].name.clone(), applied[1].name.clone(), applied[2].name.clone());
        applied.remove(2);
        let comparison = Comparison::of(&applied);
        let problems: Vec<_> = comparison.changed().into_iter().chain(comparison.missing()).collect();
        assert_eq!(problems.len(), 3, "{problems:?}");
        for (problem, name) in problems.iter().zip([by_hand, changed, gone]) {
            assert!(problem.contains(&name) && problem.contains("run railhost migrate"), "{problem}");
        }
        let all = Comparison::of(&[]).missing().expect("nothing is there");
        assert!(all.contains("and "), "{all}");
    }

    #[test]
    fn functions_of_a_newer_release_are_no_problem_but_those_changed_by_hand_are() {
        let mut applied = applied_as_files();
        applied[0].checksum = vec![0; 32];
        applied[0].release = "999.0.0".to_owned();
        let comparison = Comparison::of(&applied);
        assert_eq!((comparison.changed(), comparison.newer_release()), (Vec::new(), Some("999.0.0")));
        applied.remove(1);
        assert_eq!(Comparison::of(&applied).missing(), None);
        applied[0].is_as_applied = false;
        assert_eq!(Comparison::of(&applied).changed().len(), 1);
    }

    #[test]
    fn releases_are_compared_by_number() {
        assert!(version("0.10.0") > version("0.9.9"));
        assert!(version("1.0.0") > version("0.99.0"));
        assert_eq!(version("0.1.0"), version("0.1.0"));
    }
}
