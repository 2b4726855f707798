use std::time::Instant;

use super::bed::{BenchServer, Db};
use super::driver::{self, Driver};
use super::figures::FigureRow;
use super::flow::Flow;
use super::meter::{Meter, Phase};
use super::names::{FLOOR, FUNCTIONS, MOCK, MOCK_CALLS, OURS};
use super::ours::{self, BenchHost};
use super::rival::Rival;
use super::{floor, functions, process, rails};

const OURS_SETTINGS: &str = "as shipped: audit row, fence, idempotency, every call in a sandbox";

/// Whoever is measured.
#[derive(Debug, Clone)]
pub(super) enum Contestant {
    Ours,
    /// The same durable writes by hand-written SQL: what no host can exceed.
    Floor,
    /// Our own functions, and no host around them.
    Functions,
    Rival(Rival),
}

/// All that there are, by name.
pub(super) fn names(rivals: &[Rival]) -> Vec<String> {
    let rivals = rivals.iter().map(|rival| rival.name.clone());
    [OURS, FLOOR, FUNCTIONS].map(str::to_owned).into_iter().chain(rivals).collect()
}

impl Contestant {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Ours => OURS,
            Self::Floor => FLOOR,
            Self::Functions => FUNCTIONS,
            Self::Rival(rival) => &rival.name,
        }
    }

    /// With nothing measured yet.
    pub(super) fn line(&self) -> FigureRow {
        let line = FigureRow::named(self.name());
        match self {
            Self::Ours => FigureRow { settings: OURS_SETTINGS.to_owned(), ..line },
            Self::Floor => FigureRow {
                settings: floor::SETTINGS.to_owned(),
                lacks: floor::LACKS.map(str::to_owned).to_vec(),
                ..line
            },
            Self::Functions => FigureRow {
                settings: functions::SETTINGS.to_owned(),
                lacks: functions::LACKS.map(str::to_owned).to_vec(),
                ..line
            },
            Self::Rival(rival) => FigureRow {
                language: rival.language.clone(),
                settings: rival.settings.clone(),
                lacks: rival.lacks.clone(),
                ..line
            },
        }
    }

    /// Brings its schema.
    pub(super) async fn prepare(&self, bed: &BenchServer, db: &Db) -> anyhow::Result<()> {
        match self {
            Self::Ours | Self::Floor | Self::Functions => db.migrate().await,
            Self::Rival(rival) => driver::prepare(rival, bed, db).await.map(drop),
        }
    }

    /// Enqueues so many payments. Floor and functions have them from us.
    pub(super) async fn fill(
        &self,
        bed: &BenchServer,
        db: &Db,
        meter: &mut Meter<'_>,
        payments: usize,
    ) -> anyhow::Result<Phase> {
        if let Self::Rival(rival) = self {
            return measured(
                Driver::start(bed, db, rival, &["enqueue", &payments.to_string()])?,
                meter,
                payments,
            )
            .await;
        }
        let (mark, cpu_us) = (meter.mark().await?, process::own_cpu_us());
        let began = Instant::now();
        Flow::over(MOCK).accept(db, payments).await?;
        let ended = Instant::now();
        meter.phase(mark, (began, ended), payments, process::own_cpu_us() - cpu_us).await
    }

    /// Processes the first so many of what is there; others may stay behind.
    pub(super) async fn empty(
        &self,
        bed: &BenchServer,
        db: &Db,
        meter: &mut Meter<'_>,
        payments: usize,
        hosts: usize,
    ) -> anyhow::Result<Phase> {
        match self {
            Self::Ours => by_hosts(bed, db, meter, payments, hosts).await,
            Self::Floor => floor::empty(db, meter, payments).await,
            Self::Functions => functions::empty(db, meter, payments).await,
            Self::Rival(rival) => {
                measured(Driver::start(bed, db, rival, &["work", &payments.to_string()])?, meter, payments)
                    .await
            }
        }
    }
}

/// The time from the first host's readiness to the last verdict; what it took to start is not counted, as with rivals.
async fn by_hosts(
    bed: &BenchServer,
    db: &Db,
    meter: &mut Meter<'_>,
    payments: usize,
    hosts: usize,
) -> anyhow::Result<Phase> {
    let mark = meter.mark().await?;
    let (mut running, mut before_us) = (Vec::new(), 0.0);
    for number in 0..hosts.max(1) {
        let host = BenchHost::start(bed, db, number, &[rails::mock(MOCK, MOCK_CALLS, 0)]).await?;
        before_us += host.cpu_us();
        running.push(host);
    }
    let began = running[0].ready_at;
    let reached = ours::until(&running, payments, |_| true).await?;
    let cpu_us = running.iter().map(BenchHost::cpu_us).sum::<f64>() - before_us;
    let phase = meter.phase(mark, (began, reached.at), reached.verdicts, cpu_us).await?;
    for host in running {
        host.end().await?;
    }
    Ok(phase)
}

/// From the word to go to the word that all is done.
async fn measured(mut driver: Driver, meter: &mut Meter<'_>, payments: usize) -> anyhow::Result<Phase> {
    driver.hear("ready").await?;
    let (mark, cpu_us) = (meter.mark().await?, driver.cpu_us());
    let began = Instant::now();
    driver.go()?;
    driver.hear("done").await?;
    let ended = Instant::now();
    let cpu_us = driver.cpu_us() - cpu_us;
    let phase = meter.phase(mark, (began, ended), payments, cpu_us).await?;
    driver.close().await?;
    Ok(phase)
}
