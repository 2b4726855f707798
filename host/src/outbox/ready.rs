use chrono::{DateTime, Utc};
use sqlx::Connection;

use super::migrate::{self, Difference};
use super::operate::RailFacts;
use super::{Database, Error, Role};

/// How the server keeps what it has acknowledged.
#[derive(Debug, sqlx::FromRow)]
struct Durability {
    fsync: String,
    synchronous_commit: String,
    synchronous_standby_names: String,
    standbys: i64,
}

/// A rail as it stands in the database.
#[derive(Debug, sqlx::FromRow)]
struct Known {
    rail_type: String,
    deduplicates: bool,
    hand_over_marks: bool,
    sla_seconds: Option<i32>,
    rate_per_second: Option<i32>,
    burst: Option<i32>,
}

impl Known {
    fn facts(self) -> RailFacts {
        RailFacts {
            rail_type: self.rail_type,
            deduplicates: self.deduplicates,
            hand_over_marks: self.hand_over_marks,
            sla_seconds: self.sla_seconds,
            rate: self.rate_per_second.zip(self.burst),
        }
    }
}

/// Which database a login leads to.
#[derive(Debug, PartialEq, sqlx::FromRow)]
struct Identity {
    database: String,
    oid: i64,
    server_started: DateTime<Utc>,
    is_standby: bool,
    may_act: bool,
}

/// What a look at the database found.
#[derive(Debug, Default)]
pub struct Found {
    /// A host cannot work like this.
    pub faults: Vec<String>,
    /// It can, and somebody should know.
    pub remarks: Vec<String>,
    /// Where PostgreSQL did not answer: it may be on its way.
    pub unreachable: bool,
}

/// Whether a host may serve these rails from this database; the error says what is missing and what to do.
pub async fn verify(database: &Database, rails: &[RailFacts]) -> Result<(), Error> {
    let found = look(database, rails).await;
    for remark in &found.remarks {
        tracing::warn!("{remark}");
    }
    match found.faults.is_empty() {
        true => Ok(()),
        false if found.unreachable => Err(Error::Unreachable(found.faults.join("; "))),
        false => Err(Error::Schema(found.faults.join("; "))),
    }
}

/// All faults at once. Changes nothing.
pub async fn look(database: &Database, rails: &[RailFacts]) -> Found {
    let mut found = Found::default();
    let mut ways: Vec<(Role, Identity)> = Vec::new();
    for role in database.ways_in() {
        match identity(database, role).await {
            Ok(identity) => ways.push((role, identity)),
            Err(error) => {
                found.unreachable |= matches!(error, Error::Unreachable(_));
                found.faults.push(named(database, role, &error));
            }
        }
    }
    compare(database, &ways, &mut found);
    if ways.iter().any(|(role, _)| *role == Role::Readonly || *role == Role::Owner) {
        match schema(database, rails, &mut found).await {
            Ok(()) => {}
            Err(error) => found.faults.push(error.to_string()),
        }
    }
    found
}

/// The message of a connection that failed names its place by itself.
fn named(database: &Database, role: Role, error: &Error) -> String {
    let text = match error {
        Error::Unreachable(text) | Error::LoginRefused(text) => text.clone(),
        other => other.to_string(),
    };
    let place = database.place(role);
    match text.contains(&place) {
        true => text,
        false => format!("{place}: {text}"),
    }
}

async fn identity(database: &Database, role: Role) -> Result<Identity, Error> {
    let mut connection = database.connect(role).await?;
    // In a transaction and without a name, as everything that may go through a pooler.
    let mut transaction = connection.begin().await?;
    let identity = sqlx::query_as(
        "select current_database()::text as database, d.oid::bigint as oid, pg_postmaster_start_time() as server_started,
                pg_is_in_recovery() as is_standby,
                $1::text is null or to_regrole($1) is null or pg_has_role(current_user, to_regrole($1), 'member') as may_act
           from pg_database d
          where d.datname = current_database()",
    )
    .bind(role.name())
    .persistent(false)
    .fetch_one(&mut *transaction)
    .await?;
    transaction.commit().await?;
    connection.close().await?;
    Ok(identity)
}

/// All ways in have to lead to one database that can be written to, each with the rights of its role.
fn compare(database: &Database, ways: &[(Role, Identity)], found: &mut Found) {
    let Some((first_role, first)) = ways.first() else { return };
    for (role, identity) in ways {
        let place = database.place(*role);
        if identity.is_standby {
            found.faults.push(format!("{place} leads to a standby, which cannot be written to"));
        }
        if (identity.oid, identity.server_started) != (first.oid, first.server_started) {
            found.faults.push(format!(
                "{place} leads to another database than {}: all of them must mean the same one",
                database.place(*first_role)
            ));
        }
        if !identity.may_act {
            let wanted = role.name().unwrap_or_default();
            found.faults.push(format!("{place} is not a member of {wanted}; grant {wanted} to it"));
        }
    }
}

async fn schema(database: &Database, rails: &[RailFacts], found: &mut Found) -> Result<(), Error> {
    let mut connection = database.connect(Role::Readonly).await?;
    let mut transaction = connection.begin().await?;
    let mut is_ours = true;
    for difference in migrate::differences(&mut *transaction).await? {
        match difference {
            Difference::Wrong(what) => {
                found.faults.push(what);
                is_ours = false;
            }
            Difference::Newer(what) => found.remarks.push(what),
        }
    }
    if !is_ours {
        return Ok(());
    }
    let known: Vec<Known> = sqlx::query_as(
        "select rail_type, deduplicates, hand_over_marks, sla_seconds, rate_per_second, burst from symphony.rails",
    )
    .persistent(false)
    .fetch_all(&mut *transaction)
    .await?;
    let days_left: f64 = sqlx::query_scalar("select symphony.history_days_left()")
        .persistent(false)
        .fetch_one(&mut *transaction)
        .await?;
    transaction.commit().await?;
    connection.close().await?;
    let known: Vec<_> = known.into_iter().map(Known::facts).collect();
    found.faults.extend(unknown(rails, &known));
    found.remarks.extend(months(days_left));
    // As those who lease, mark and complete are served: a role may have settings of its own. One that is not let in was told of.
    let Ok(mut connection) = database.connect(Role::Executor).await else { return Ok(()) };
    let mut transaction = connection.begin().await?;
    let durability: Durability = sqlx::query_as(
        "select current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit,
                current_setting('synchronous_standby_names') as synchronous_standby_names,
                (select count(*) from pg_stat_replication) as standbys",
    )
    .persistent(false)
    .fetch_one(&mut *transaction)
    .await?;
    transaction.commit().await?;
    connection.close().await?;
    found.faults.extend(durability.problem(rails));
    Ok(())
}

/// Hosts make months ahead; where none of them does, payments are refused one day.
fn months(days_left: f64) -> Option<String> {
    (days_left < DAYS_LEFT_MIN).then(|| match days_left > 0.0 {
        true => format!(
            "the history has months for {days_left:.1} more days; run railhost retention, or a host, which makes more"
        ),
        false => "the history has no month for new payments, which are refused; run railhost retention".to_owned(),
    })
}

const DAYS_LEFT_MIN: f64 = 14.0;

impl Durability {
    fn problem(&self, rails: &[RailFacts]) -> Option<String> {
        for (name, value) in [("fsync", &self.fsync), ("synchronous_commit", &self.synchronous_commit)] {
            if value == "off" {
                return Some(format!(
                    "{name} is off in PostgreSQL: a crash could forget what was paid, turn it on"
                ));
            }
        }
        let careful = rails.iter().find(|rail| !rail.deduplicates)?;
        let waits = !self.synchronous_standby_names.is_empty()
            && ["on", "remote_apply"].contains(&self.synchronous_commit.as_str());
        (self.standbys > 0 && !waits).then(|| {
            format!(
                "rail {} does not deduplicate, and PostgreSQL has a standby that may lag: a failover could forget what was paid; set synchronous_standby_names, and synchronous_commit to on",
                careful.rail_type
            )
        })
    }
}

/// A rail that the database knows otherwise than its file describes it.
fn unknown(rails: &[RailFacts], known: &[RailFacts]) -> Option<String> {
    let stranger =
        rails.iter().find(|rail| match known.iter().find(|known| known.rail_type == rail.rail_type) {
            Some(known) => known != *rail,
            None => !rail.is_unremarkable(),
        })?;
    Some(format!(
        "the database does not know rail {} as its file describes it (rate, marks, SLA); run railhost migrate",
        stranger.rail_type
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rail(deduplicates: bool) -> RailFacts {
        RailFacts {
            rail_type: "mtn".to_owned(),
            deduplicates,
            hand_over_marks: !deduplicates,
            sla_seconds: None,
            rate: None,
        }
    }

    fn server(fsync: &str, commit: &str, names: &str, standbys: i64) -> Durability {
        Durability {
            fsync: fsync.to_owned(),
            synchronous_commit: commit.to_owned(),
            synchronous_standby_names: names.to_owned(),
            standbys,
        }
    }

    #[test]
    fn a_database_that_can_forget_a_commit_is_refused() {
        for forgetful in [server("off", "on", "", 0), server("on", "off", "", 0)] {
            assert!(forgetful.problem(&[rail(true)]).is_some(), "{forgetful:?}");
        }
        for sound in
            [server("on", "on", "", 0), server("on", "remote_apply", "*", 2), server("on", "local", "", 1)]
        {
            assert_eq!(sound.problem(&[rail(true)]), None, "{sound:?}");
        }
    }

    #[test]
    fn a_rail_that_does_not_deduplicate_needs_a_standby_that_knows_all() {
        let rails = [rail(true), rail(false)];
        assert!(server("on", "on", "", 1).problem(&rails).expect("it may forget").contains("rail mtn"));
        assert!(server("on", "local", "*", 1).problem(&rails).is_some(), "it does not wait for the standby");
        assert_eq!(server("on", "on", "", 0).problem(&rails), None, "nothing to fail over to");
        assert_eq!(server("on", "on", "ANY 1 (*)", 1).problem(&rails), None);
    }

    #[test]
    fn a_history_that_ends_soon_is_told_of() {
        assert_eq!(months(60.0), None);
        assert!(months(3.0).expect("it ends").contains("3.0 more days"));
        assert!(months(-1.0).expect("it ended").contains("refused"));
    }

    #[test]
    fn a_rail_is_known_as_its_file_says() {
        assert_eq!(unknown(&[rail(true)], &[]), None, "the database assumes as much");
        assert!(unknown(&[rail(false)], &[]).is_some());
        let limited = [RailFacts { rate: Some((50, 10)), ..rail(true) }];
        assert!(unknown(&limited, &[rail(true)]).is_some());
        assert_eq!(unknown(&limited, &limited), None);
    }
}
