use sqlx::{Connection, PgConnection};

use super::operate::RailFacts;
use super::{Database, Error, Role, migrate};

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

/// Whether a host may serve these rails from this database; the error says what is missing and what to do.
pub async fn verify(database: &Database, rails: &[RailFacts]) -> Result<(), Error> {
    migrate::verify(database).await?;
    // As those who lease, mark and complete are served: a role may have settings of its own.
    let durability: Durability = sqlx::query_as(
        "select current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit,
                current_setting('synchronous_standby_names') as synchronous_standby_names,
                (select count(*) from pg_stat_replication) as standbys",
    )
    .fetch_one(&database.pool(Role::Executor, 1))
    .await?;
    let mut connection = PgConnection::connect_with(&database.options(Role::Owner)).await?;
    let known: Vec<Known> = sqlx::query_as(
        "select rail_type, deduplicates, hand_over_marks, sla_seconds, rate_per_second, burst from symphony.rails",
    )
    .fetch_all(&mut connection)
    .await?;
    connection.close().await?;
    let known: Vec<_> = known.into_iter().map(Known::facts).collect();
    let problem = durability.problem(rails).or_else(|| unknown(rails, &known));
    problem.map_or(Ok(()), |problem| Err(Error::Schema(problem)))
}

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
    fn a_rail_is_known_as_its_file_says() {
        assert_eq!(unknown(&[rail(true)], &[]), None, "the database assumes as much");
        assert!(unknown(&[rail(false)], &[]).is_some());
        let limited = [RailFacts { rate: Some((50, 10)), ..rail(true) }];
        assert!(unknown(&limited, &[rail(true)]).is_some());
        assert_eq!(unknown(&limited, &limited), None);
    }
}
