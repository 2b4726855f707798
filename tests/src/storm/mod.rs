//! A storm: payments flow while hosts, database, wires and rails fail in an order that a seed decides; then all is healed, and
//! everything has to come to its end in time; then three books are compared.
//!
//! - [`fault`]: what is done to a world · [`rail_faults`]: what the rails themselves do · [`coverage`]: what has to have happened

mod coverage;
mod fault;
mod rail_faults;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use self::fault::Fault;
use crate::world::{Audit, Plan, World};
use crate::{PATIENCE, Pg};

/// How much of it.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub payments: usize,
    /// The push column of the menu, so many times.
    pub menus: usize,
}

/// How often what was left to chance and did not happen is tried once more.
const TRIES: usize = 10;

impl Size {
    pub const PUSH: Self = Self { payments: 5_500, menus: 1 };
}

/// What a round did, and how it ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    pub seed: u64,
    pub postgres: u32,
    pub payments: usize,
    /// What was done to hosts, database and wires, and what rails did to requests and replies, by kind.
    pub faults: BTreeMap<String, u64>,
    pub audit: Audit,
    /// Secrets that showed somewhere.
    pub leaked: Vec<String>,
    /// Recorded exchanges that another process judged, and those that it judged otherwise.
    pub judged_again: u64,
    pub judged_otherwise: Vec<String>,
    /// What happened on the way, by kind.
    pub saw: BTreeMap<String, u64>,
    pub seconds: f64,
    /// From the heal to the last verdict.
    pub converged_seconds: f64,
    /// The longest from a killed database that is back to the next attempt that is written.
    pub resumed_seconds_max: f64,
}

impl Report {
    pub fn faults_total(&self) -> u64 {
        self.faults.values().sum()
    }

    /// What should have happened and did not.
    pub fn missed(&self) -> Vec<String> {
        self.saw.iter().filter(|(_, count)| **count == 0).map(|(what, _)| what.clone()).collect()
    }
}

/// One storm. `tell` hears of its progress.
pub async fn round(seed: u64, size: Size, mut tell: impl FnMut(usize, usize, &str)) -> Report {
    let began = Instant::now();
    let pg = if seed.is_multiple_of(2) { Pg::V18 } else { Pg::V15 };
    let mut storm = Storm::build(seed, pg).await;
    storm.world.start_hosts();
    let steps = storm.run_menu(size, &mut tell).await;
    tell(steps, steps, "all is healed");
    storm.world.heal().await;
    let healed = Instant::now();
    storm.world.converge(PATIENCE).await;
    let converged = healed.elapsed();
    let drained = storm.world.drain().await;
    let audit = storm.world.audit().await;
    let saw = coverage::all(&storm, drained).await;
    let leaked = storm.world.leaked().await;
    let (judged_again, judged_otherwise) = storm.world.judged_again();
    let mut faults = storm.faults.clone();
    faults.extend(rail_faults::faults(&storm.world));
    Report {
        seed,
        postgres: pg.major(),
        payments: storm.world.owed.len(),
        faults,
        audit,
        leaked,
        judged_again,
        judged_otherwise,
        saw,
        seconds: began.elapsed().as_secs_f64(),
        converged_seconds: converged.as_secs_f64(),
        resumed_seconds_max: storm.resumed.as_secs_f64(),
    }
}

/// A world under way.
struct Storm {
    world: World,
    faults: BTreeMap<String, u64>,
    /// Hosts that were told to stop while they held leases, and ended well.
    drained_at_work: u64,
    resumed: Duration,
}

impl Storm {
    async fn build(seed: u64, pg: Pg) -> Self {
        let hosts = 1 + (seed % 3) as usize;
        let plan =
            Plan { hosts, own_server: Some(pg), recorded: true, ..Plan::new(seed, rail_faults::rails()) };
        Self {
            world: World::build(plan).await,
            faults: BTreeMap::new(),
            drained_at_work: 0,
            resumed: Duration::ZERO,
        }
    }

    /// Every fault of the menu, then again what was left to chance and did not happen. Answers how long the menu was.
    async fn run_menu(&mut self, size: Size, tell: &mut impl FnMut(usize, usize, &str)) -> usize {
        let mut menu = fault::menu(size.menus, &mut self.world.rng);
        let steps = menu.len();
        let per_step = size.payments.div_ceil(steps);
        while let Some(fault) = menu.pop() {
            tell(steps - menu.len(), steps, fault.name());
            self.run_step(fault, per_step).await;
        }
        for _ in 0..TRIES {
            let missed = coverage::missed(self).await;
            if missed.is_empty() {
                break;
            }
            for fault in missed {
                tell(steps, steps, fault.name());
                self.run_step(fault, per_step).await;
            }
        }
        steps
    }

    async fn run_step(&mut self, fault: Fault, payments: usize) {
        self.owe(payments).await;
        self.strike(fault).await;
        self.raise_hosts();
    }

    /// Some more payments, on all rails.
    async fn owe(&mut self, count: usize) {
        let rails = self.world.rails.len();
        let first = self.world.rng.usize(..rails);
        for rail in 0..rails {
            let share = (count + (rail + first) % rails) / rails;
            let amounts: Vec<_> = (0..share).map(|_| rail_faults::amount(&mut self.world.rng)).collect();
            if !amounts.is_empty() {
                self.world.owe(rail, &amounts).await;
            }
        }
    }

    /// Starts the hosts that a fault ended.
    fn raise_hosts(&mut self) {
        for host in &mut self.world.hosts {
            if !host.is_up() {
                host.start(&[]);
            }
        }
    }

    fn count(&mut self, kind: &str) {
        *self.faults.entry(kind.to_owned()).or_default() += 1;
    }

    fn any_host(&mut self) -> usize {
        self.world.rng.usize(..self.world.hosts.len())
    }

    fn any_rail(&mut self) -> usize {
        self.world.rng.usize(..self.world.rails.len())
    }
}

/// Between two bounds, in milliseconds.
async fn pause(rng: &mut Rng, milliseconds: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(rng.u64(milliseconds))).await;
}
