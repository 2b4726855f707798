//! The schema of an outbox has a name. SQL is written for the default one and is put into another one here.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use sqlx::postgres::PgArguments;
use sqlx::{AssertSqlSafe, Execute, Postgres, SqlSafeStr, SqlStr};

const DEFAULT: &str = "symphony";
const CHANNEL: &str = "outbox_pending";
/// A name of the server has 63 characters, and that of the channel begins with `outbox_pending_`.
const CHARS_MAX: usize = 40;
/// A setting that callers know by this name, whatever the schema is.
const SETTING: &str = ".will_prepare";

/// The schema in which an outbox lives: a plain identifier, which needs no quotes.
#[derive(Clone, PartialEq, Eq)]
pub struct SchemaName(Cow<'static, str>);

impl Default for SchemaName {
    fn default() -> Self {
        Self(Cow::Borrowed(DEFAULT))
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SchemaName {
    type Err = String;

    /// What the server alone knows, that the name is none of its key words, `railhost migrate` asks it.
    fn from_str(name: &str) -> Result<Self, String> {
        let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !is_plain || name.len() > CHARS_MAX {
            return Err(format!(
                "{name:?} cannot name a schema: expected a lower-case letter, then lower-case letters, digits and _, at most {CHARS_MAX} characters"
            ));
        }
        if name.starts_with("pg_") || ["public", "information_schema"].contains(&name) {
            return Err(format!("{name:?} cannot name a schema of ours: it belongs to PostgreSQL"));
        }
        Ok(if name == DEFAULT { Self::default() } else { Self(Cow::Owned(name.to_owned())) })
    }
}

impl SchemaName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_default(&self) -> bool {
        self.0 == DEFAULT
    }

    /// The channel of its notifications.
    pub fn channel(&self) -> Cow<'static, str> {
        match self.is_default() {
            true => Cow::Borrowed(CHANNEL),
            false => Cow::Owned(format!("{CHANNEL}_{}", self.0)),
        }
    }

    /// SQL for this schema: the words `symphony` and `outbox_pending` stand for its name and its channel. Roles, whose names
    /// are longer words, belong to the whole cluster.
    pub fn rewrite<'s>(&self, sql: &'s str) -> Cow<'s, str> {
        if self.is_default() {
            return Cow::Borrowed(sql);
        }
        let mut placed = String::with_capacity(sql.len() + 64);
        let mut rest = sql;
        while let Some(start) = rest.find(is_of_a_word) {
            let end = rest[start..].find(|c| !is_of_a_word(c)).map_or(rest.len(), |length| start + length);
            let word = match &rest[start..end] {
                DEFAULT if !rest[end..].starts_with(SETTING) => Cow::Borrowed(self.as_str()),
                CHANNEL => self.channel(),
                other => Cow::Borrowed(other),
            };
            placed.push_str(&rest[..start]);
            placed.push_str(&word);
            rest = &rest[end..];
        }
        placed.push_str(rest);
        Cow::Owned(placed)
    }

    /// The same for a statement that is about to be sent.
    pub(super) fn statement(&self, sql: SqlStr) -> SqlStr {
        match self.is_default() {
            true => sql,
            // Written by us: only the name of the schema is put in, and that is a plain identifier.
            false => AssertSqlSafe(self.rewrite(sql.as_str()).into_owned()).into_sql_str(),
        }
    }
}

fn is_of_a_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// A query whose statement speaks of this schema.
pub(super) struct InSchema<E>(pub E, pub SchemaName);

impl<'q, E: Execute<'q, Postgres>> Execute<'q, Postgres> for InSchema<E> {
    fn sql(self) -> SqlStr {
        self.1.statement(self.0.sql())
    }

    fn statement(&self) -> Option<&sqlx::postgres::PgStatement> {
        self.0.statement()
    }

    fn take_arguments(&mut self) -> Result<Option<PgArguments>, sqlx::error::BoxDynError> {
        self.0.take_arguments()
    }

    fn persistent(&self) -> bool {
        self.0.persistent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> SchemaName {
        name.parse().expect("a name")
    }

    #[test]
    fn a_name_is_a_plain_identifier() {
        for name in ["symphony", "symphony_01", "a", &"a".repeat(40)] {
            assert_eq!(named(name).as_str(), name);
        }
        for name in [
            "",
            "Symphony",
            "1st",
            "_a",
            "a-b",
            "a b",
            "a\"",
            "a;drop",
            "pg_own",
            "public",
            "ä",
            &"a".repeat(41),
        ] {
            assert!(name.parse::<SchemaName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn only_the_name_of_the_schema_and_of_its_channel_are_put_in() {
        let sql = "select symphony.clock() from symphony.payment_outbox_pending -- symphony_control
            where pg_notify('outbox_pending', '') and current_setting('symphony.will_prepare')";
        let placed = named("shard_1").rewrite(sql).into_owned();
        assert_eq!(
            placed,
            "select shard_1.clock() from shard_1.payment_outbox_pending -- symphony_control
            where pg_notify('outbox_pending_shard_1', '') and current_setting('symphony.will_prepare')"
        );
        assert_eq!(named("symphony").rewrite(sql), sql);
        assert_eq!(named("a").rewrite("symphony"), "a");
    }
}
