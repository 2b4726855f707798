use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, Connection};

use super::database::Access;
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
struct RailRow {
    rail_type: String,
    deduplicates: bool,
    hand_over_marks: bool,
    sla_seconds: Option<i32>,
    rate_per_second: Option<i32>,
    burst: Option<i32>,
    key_forms: Option<String>,
}

impl RailRow {
    fn facts(self) -> RailFacts {
        RailFacts {
            rail_type: self.rail_type,
            deduplicates: self.deduplicates,
            hand_over_marks: self.hand_over_marks,
            sla_seconds: self.sla_seconds,
            rate: self.rate_per_second.zip(self.burst),
            key_forms: self.key_forms,
        }
    }
}

/// Which database a login leads to, and what it may do there.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
struct LoginTarget {
    oid: i64,
    server_started: DateTime<Utc>,
    is_standby: bool,
    is_read_only: bool,
    may_act: bool,
}

/// What a look at the database found.
#[derive(Debug, Default)]
pub struct Readiness {
    /// A host cannot work like this.
    pub faults: Vec<String>,
    /// It can, and somebody should know.
    pub remarks: Vec<String>,
    /// Where PostgreSQL did not answer: it may be on its way.
    pub unreachable: bool,
    /// Digests of components that no host may use any more.
    pub revoked: Vec<Vec<u8>>,
}

impl Readiness {
    /// Ways that share a login share their faults; each is told once.
    fn fault(&mut self, fault: String) {
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    fn verdict(self) -> Result<(), Error> {
        match self.faults.is_empty() {
            true => Ok(()),
            false if self.unreachable => Err(Error::Unreachable(self.faults.join("; "))),
            false => Err(Error::Schema(self.faults.join("; "))),
        }
    }
}

/// Whether a host may serve these rails from this database; the error says what is missing and what to do.
pub async fn verify(database: &Database, rails: &[RailFacts]) -> Result<(), Error> {
    let found = look_along(database, database.ways_of_a_host(), rails).await;
    for remark in &found.remarks {
        tracing::warn!("{remark}");
    }
    found.verdict()
}

/// The same for a rail that comes while the host runs. Remarks were made when it started.
pub async fn verify_rail(database: &Database, rail: RailFacts) -> Result<(), Error> {
    look_along(database, database.ways_of_a_host(), &[rail]).await.verdict()
}

/// All faults at once, whoever would meet them. Changes nothing.
pub async fn look(database: &Database, rails: &[RailFacts]) -> Readiness {
    look_along(database, database.ways_in(), rails).await
}

async fn look_along(database: &Database, ways: Vec<Access>, rails: &[RailFacts]) -> Readiness {
    let mut found = Readiness::default();
    let ways = identities(database, ways, &mut found).await;
    compare(database, &ways, &mut found);
    let open = |role: &Role| ways.iter().any(|(way, _)| *way == Access::As(*role));
    if let Some(reader) = [Role::Readonly, Role::Owner].into_iter().find(open)
        && let Err(error) = schema(database, reader, rails, &mut found).await
    {
        found.fault(error.to_string());
    }
    if open(&Role::Executor)
        && let Err(error) = durability(database, rails, &mut found).await
    {
        found.fault(error.to_string());
    }
    found
}

/// Every way that can be taken, with where it leads; the others are faults.
async fn identities(
    database: &Database,
    wanted: Vec<Access>,
    found: &mut Readiness,
) -> Vec<(Access, LoginTarget)> {
    let (mut ways, mut missing_roles) = (Vec::new(), Vec::new());
    let mut owner_is_out = false;
    for way in wanted {
        // It would be told of once more, after as long a wait.
        if owner_is_out && database.takes_on(way) {
            continue;
        }
        match identity(database, way).await {
            Ok(identity) => ways.push((way, identity)),
            // A role that is to be taken on, and that nobody has made yet.
            Err(Error::InvalidArgument(_)) if database.takes_on(way) => {
                missing_roles.extend(way.role().name());
            }
            Err(error) => {
                owner_is_out |= way == Access::As(Role::Owner);
                found.unreachable |= matches!(error, Error::Unreachable(_));
                found.fault(named(database, way, &error));
            }
        }
    }
    if !missing_roles.is_empty() {
        found.fault(format!("there is no role {}; run railhost migrate", missing_roles.join(", ")));
    }
    ways
}

/// The message of a connection that failed names its login by itself.
fn named(database: &Database, way: Access, error: &Error) -> String {
    let text = match error {
        Error::Unreachable(text) | Error::LoginRefused(text) => text.clone(),
        other => other.to_string(),
    };
    let login = database.name_of(way);
    match text.contains(&login) {
        true => text,
        false => format!("{login}: {text}"),
    }
}

async fn identity(database: &Database, way: Access) -> Result<LoginTarget, Error> {
    let mut connection = database.enter(way).await?;
    // In a transaction and without a name, as everything that may go through a pooler.
    let mut transaction = connection.begin().await?;
    // A member that does not inherit may call nothing: usage is asked for, not membership.
    let identity = sqlx::query_as(
        "select d.oid::bigint as oid, pg_postmaster_start_time() as server_started,
                pg_is_in_recovery() as is_standby,
                current_setting('transaction_read_only') = 'on' as is_read_only,
                $1::text is null or to_regrole($1) is null or pg_has_role(current_user, to_regrole($1), 'usage') as may_act
           from pg_database d
          where d.datname = current_database()",
    )
    .bind(way.role().name())
    .persistent(false)
    .fetch_one(&mut *transaction)
    .await?;
    transaction.commit().await?;
    connection.close().await?;
    Ok(identity)
}

/// All ways in have to lead to one database that can be written to, each with the rights of its role.
fn compare(database: &Database, ways: &[(Access, LoginTarget)], found: &mut Readiness) {
    let Some((first_way, first)) = ways.first() else { return };
    for (way, identity) in ways {
        let login = database.name_of(*way);
        if identity.is_standby {
            found.fault(format!("{login} leads to a standby, which cannot be written to"));
        } else if identity.is_read_only && way.writes() {
            found.fault(format!(
                "{login} may only read: default_transaction_read_only is on there, turn it off"
            ));
        }
        if (identity.oid, identity.server_started) != (first.oid, first.server_started) {
            found.fault(format!(
                "{login} points to a different database than {}; all must point to the same one",
                database.name_of(*first_way)
            ));
        }
        if !identity.may_act {
            let wanted = way.role().name().unwrap_or_default();
            found.fault(format!(
                "{login} does not have the rights of {wanted}; grant {wanted} to it, and let it inherit"
            ));
        }
    }
}

/// Whether the schema is ours and knows our rails, as far as this role may see it.
async fn schema(
    database: &Database,
    reader: Role,
    rails: &[RailFacts],
    found: &mut Readiness,
) -> Result<(), Error> {
    let mut connection = database.connect(reader).await?;
    let mut transaction = connection.begin().await?;
    let mut is_ours = true;
    for difference in migrate::differences(&mut transaction, database.schema()).await? {
        match difference {
            Difference::Wrong(what) | Difference::Changed(what) => {
                found.fault(what);
                is_ours = false;
            }
            Difference::Newer(what) => found.remarks.push(what),
        }
    }
    if !is_ours {
        return Ok(());
    }
    let known: Vec<RailRow> = sqlx::query_as(in_schema(
        database,
        "select rail_type, deduplicates, hand_over_marks, sla_seconds, rate_per_second, burst, key_forms
           from symphony.rails",
    ))
    .persistent(false)
    .fetch_all(&mut *transaction)
    .await?;
    found.revoked = sqlx::query_scalar(in_schema(database, "select digest from symphony.revoked_adapters"))
        .persistent(false)
        .fetch_all(&mut *transaction)
        .await?;
    let days_left: f64 = sqlx::query_scalar(in_schema(database, "select symphony.history_days_left()"))
        .persistent(false)
        .fetch_one(&mut *transaction)
        .await?;
    transaction.commit().await?;
    connection.close().await?;
    let known: Vec<_> = known.into_iter().map(RailRow::facts).collect();
    unknown(rails, &known).into_iter().for_each(|fault| found.fault(fault));
    found.remarks.extend(months(days_left));
    Ok(())
}

fn in_schema(database: &Database, sql: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(database.schema().rewrite(sql).into_owned())
}

/// As those who lease, mark and complete are served: a role may have settings of its own.
async fn durability(database: &Database, rails: &[RailFacts], found: &mut Readiness) -> Result<(), Error> {
    let mut connection = database.connect(Role::Executor).await?;
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
    durability.problems(rails).into_iter().for_each(|fault| found.fault(fault));
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
    fn problems(&self, rails: &[RailFacts]) -> Vec<String> {
        let mut problems: Vec<String> =
            [("fsync", &self.fsync), ("synchronous_commit", &self.synchronous_commit)]
                .into_iter()
                .filter(|(_, value)| *value == "off")
                .map(|(name, _)| {
                    format!("{name} is off in PostgreSQL: a crash could forget what was paid, turn it on")
                })
                .collect();
        let careful: Vec<&str> =
            rails.iter().filter(|rail| !rail.deduplicates).map(|rail| rail.rail_type.as_str()).collect();
        let waits = !self.synchronous_standby_names.is_empty()
            && ["on", "remote_apply"].contains(&self.synchronous_commit.as_str());
        if self.standbys > 0 && !waits && !careful.is_empty() {
            problems.push(format!(
                "rail {}: it does not deduplicate, and PostgreSQL has a standby that may lag: a failover could forget what was paid; set synchronous_standby_names, and synchronous_commit to on",
                careful.join(", ")
            ));
        }
        problems
    }
}

/// Each rail that the database knows otherwise than its file describes it.
fn unknown(rails: &[RailFacts], known: &[RailFacts]) -> Vec<String> {
    let is_strange = |rail: &&RailFacts| match known.iter().find(|known| known.rail_type == rail.rail_type) {
        Some(known) => !rail.agrees(known),
        None => !rail.is_unremarkable(),
    };
    let told = |rail: &RailFacts| {
        format!(
            "the database does not know rail {} as its file describes it (rate, marks, SLA, provider, form of the key); run railhost migrate",
            rail.rail_type
        )
    };
    rails.iter().filter(is_strange).map(told).collect()
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
            key_forms: None,
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
            assert_eq!(forgetful.problems(&[rail(true)]).len(), 1, "{forgetful:?}");
        }
        for sound in
            [server("on", "on", "", 0), server("on", "remote_apply", "*", 2), server("on", "local", "", 1)]
        {
            assert_eq!(sound.problems(&[rail(true)]), Vec::<String>::new(), "{sound:?}");
        }
    }

    #[test]
    fn every_way_in_which_a_commit_can_be_forgotten_is_told() {
        let other = RailFacts { rail_type: "bank".to_owned(), ..rail(false) };
        let told = server("off", "off", "", 1).problems(&[rail(false), other]);
        assert_eq!(told.len(), 3, "{told:?}");
        for (problem, words) in told.iter().zip(["fsync is off", "synchronous_commit is off", "mtn, bank"]) {
            assert!(problem.contains(words), "{problem}");
        }
    }

    #[test]
    fn a_rail_that_does_not_deduplicate_needs_a_standby_that_knows_all() {
        let rails = [rail(true), rail(false)];
        assert!(server("on", "on", "", 1).problems(&rails)[0].contains("rail mtn"));
        assert_eq!(
            server("on", "local", "*", 1).problems(&rails).len(),
            1,
            "it does not wait for the standby"
        );
        assert_eq!(server("on", "on", "", 0).problems(&rails).len(), 0, "nothing to fail over to");
        assert_eq!(server("on", "on", "ANY 1 (*)", 1).problems(&rails).len(), 0);
    }

    #[test]
    fn a_history_that_ends_soon_is_told_of() {
        assert_eq!(months(60.0), None);
        assert!(months(3.0).expect("it ends").contains("3.0 more days"));
        assert!(months(-1.0).expect("it ended").contains("refused"));
    }

    #[test]
    fn a_rail_is_known_as_its_file_says() {
        assert_eq!(unknown(&[rail(true)], &[]), Vec::<String>::new(), "the database assumes as much");
        assert_eq!(unknown(&[rail(false)], &[]).len(), 1);
        let limited = [RailFacts { rate: Some((50, 10)), ..rail(true) }];
        assert_eq!(unknown(&limited, &[rail(true)]).len(), 1);
        assert_eq!(unknown(&limited, &limited), Vec::<String>::new());
    }

    #[test]
    fn every_rail_that_the_database_does_not_know_is_told() {
        let bank = RailFacts { rail_type: "bank".to_owned(), ..rail(false) };
        let told = unknown(&[rail(false), bank], &[]);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("rail mtn ") && told[1].contains("rail bank "), "{told:?}");
    }

    fn identity(is_standby: bool, is_read_only: bool) -> LoginTarget {
        LoginTarget { oid: 5, server_started: DateTime::UNIX_EPOCH, is_standby, is_read_only, may_act: true }
    }

    fn compared(ways: &[(Access, LoginTarget)]) -> Vec<String> {
        let database = Database::from_url("postgres://one@server/outbox").expect("a URL");
        let mut found = Readiness::default();
        compare(&database, ways, &mut found);
        found.faults
    }

    #[test]
    fn a_database_that_cannot_be_written_to_is_told_once_for_a_login_and_readers_may_only_read() {
        let ways = |identity: &LoginTarget| {
            [Role::Owner, Role::Readonly, Role::Executor].map(|role| (Access::As(role), identity.clone()))
        };
        assert_eq!(compared(&ways(&identity(false, false))), Vec::<String>::new());
        let standby = compared(&ways(&identity(true, true)));
        assert_eq!(standby.len(), 1, "{standby:?}");
        assert!(standby[0].ends_with("leads to a standby, which cannot be written to"), "{standby:?}");
        assert!(compared(&ways(&identity(false, true)))[0].contains("may only read"));
        let reader = [(Access::As(Role::Readonly), identity(false, true))];
        assert_eq!(compared(&reader), Vec::<String>::new());
    }
}
