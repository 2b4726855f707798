//! One database with a long history and a long queue, and beside it one with a short queue.

use anyhow::Result;
use indicatif::ProgressBar;
use sqlx::AssertSqlSafe;
use sqlx::types::Json;

use crate::bed::{BenchServer, Db, bar, say, step};
use crate::payments::payload;

const SEED_SQL: &str = include_str!("../../../bench/seed.sql");
const MONTHS: usize = 11;
const PER_STATEMENT: usize = 100_000;
pub(crate) const SMALL_ROWS: usize = 60_000;

/// Waiting rows, the first due first. Each group is what one case of `ahead` keeps back.
pub(crate) const GROUPS: [Group; 4] = [
    Group {
        name: "suspended",
        rail: "mtn",
        participants: HELD_PARTICIPANTS,
        due: ("20 hours", "16 hours"),
        share: 1,
    },
    Group { name: "paused", rail: "airtel", participants: 1000, due: ("16 hours", "12 hours"), share: 1 },
    Group {
        name: "strict",
        rail: "mtn",
        participants: HELD_PARTICIPANTS,
        due: ("12 hours", "8 hours"),
        share: 1,
    },
    Group { name: "free", rail: "mtn", participants: 1000, due: ("8 hours", "1 hour"), share: 2 },
];
pub(crate) const HELD_PARTICIPANTS: usize = 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) rail: &'static str,
    participants: usize,
    due: (&'static str, &'static str),
    /// In fifths of the queue.
    share: usize,
}

#[derive(Debug)]
pub(crate) struct Large {
    pub(crate) db: Db,
    pub(crate) small: Db,
    pub(crate) history_rows: usize,
    pub(crate) pending_rows: usize,
}

impl Large {
    pub(crate) async fn seed(bed: &BenchServer) -> Result<Self> {
        let history_rows = bed.scale(10_000_000 / bed.shrink, 200_000);
        let pending_rows = bed.scale(5_000_000 / bed.shrink, 200_000);
        say(&format!("seeding {history_rows} attempts and {pending_rows} pending rows"));
        let (db, small) = (bed.create("large").await?, bed.create("small").await?);
        let large = Self { db, small, history_rows, pending_rows };
        for db in [&large.db, &large.small] {
            db.execute(SEED_SQL).await?;
            db.execute(&format!("select bench.seed_months({MONTHS})")).await?;
        }
        large.stretch("history", ("11 months", "2 days"), history_rows).await?;
        for group in GROUPS {
            large.stretch(group.name, group.due, group.rows(pending_rows)).await?;
        }
        // Three writers, each in the order of its ids, as time would have written.
        let bar = bar("rows", 2 * history_rows + pending_rows);
        tokio::try_join!(
            large.in_parts("select bench.seed_attempts($1, $2)", history_rows, &bar),
            large.in_parts("select bench.seed_records($1, $2)", history_rows, &bar),
            large.seed_queue(&bar),
        )?;
        bar.finish_and_clear();
        large.refill_small().await?;
        step("numbers, statistics and a vacuum, as autovacuum would", async {
            large.db.execute("select bench.seed_counters()").await?;
            large.db.execute("vacuum (analyze) symphony.payment_outbox_pending").await?;
            large.db.execute("vacuum (analyze) symphony.payment_outbox_records").await?;
            large.db.execute("analyze symphony.payment_outbox_attempts").await?;
            bed.checkpoint().await
        })
        .await?;
        let size: i64 = large.db.ask("select pg_database_size(current_database())").await?;
        say(&format!("  the large database has {:.1} GB", size as f64 / 1e9));
        Ok(large)
    }

    /// Brings the short queue back to its length.
    pub(crate) async fn refill_small(&self) -> Result<()> {
        let waiting: i64 = self.small.ask("select count(*) from symphony.payment_outbox_pending").await?;
        let missing = SMALL_ROWS.saturating_sub(usize::try_from(waiting)?);
        let written: i64 = self.small.ask("select count(*) from bench.stretch").await?;
        let name = format!("small{written}");
        // Behind what is there already, as new payments are.
        let (from, until) =
            (format!("{} minutes", 60 - 4 * written), format!("{} minutes", 57 - 4 * written));
        self.small
            .execute(&format!("select bench.seed_stretch('{name}', '{from}', '{until}', {missing})"))
            .await?;
        seed_pending(&self.small, &name, "mtn", 1000, 0, missing).await?;
        self.small.execute("select bench.seed_counters()").await?;
        self.small.execute("vacuum (analyze) symphony.payment_outbox_pending").await
    }

    async fn stretch(&self, name: &str, due: (&str, &str), rows: usize) -> Result<()> {
        self.db
            .execute(&format!("select bench.seed_stretch('{name}', '{}', '{}', {rows})", due.0, due.1))
            .await
    }

    async fn in_parts(&self, call: &'static str, rows: usize, bar: &ProgressBar) -> Result<()> {
        let mut connection = self.db.superuser().await?;
        for from in (0..rows).step_by(PER_STATEMENT) {
            let until = rows.min(from + PER_STATEMENT);
            sqlx::query(AssertSqlSafe(call))
                .bind(i64::try_from(from)?)
                .bind(i64::try_from(until)?)
                .execute(&mut connection)
                .await?;
            bar.inc((until - from) as u64);
        }
        Ok(())
    }

    async fn seed_queue(&self, bar: &ProgressBar) -> Result<()> {
        for group in GROUPS {
            let rows = group.rows(self.pending_rows);
            for from in (0..rows).step_by(PER_STATEMENT) {
                let until = rows.min(from + PER_STATEMENT);
                seed_pending(&self.db, group.name, group.rail, group.participants, from, until).await?;
                bar.inc((until - from) as u64);
            }
        }
        Ok(())
    }
}

impl Group {
    pub(crate) fn rows(&self, pending_rows: usize) -> usize {
        pending_rows / 5 * self.share
    }
}

async fn seed_pending(
    db: &Db,
    stretch: &str,
    rail: &str,
    participants: usize,
    from: usize,
    until: usize,
) -> Result<()> {
    let mut connection = db.superuser().await?;
    sqlx::query("select bench.seed_pending($1, array[$2], $3, $4, $5, $6)")
        .bind(stretch)
        .bind(rail)
        .bind(i32::try_from(participants)?)
        .bind(Json(payload()))
        .bind(i64::try_from(from)?)
        .bind(i64::try_from(until)?)
        .execute(&mut connection)
        .await?;
    Ok(())
}
