//! What is done to a world, one thing at a time while payments flow.

use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;

use super::{Storm, pause};
use crate::world::wire::Mode;
use crate::{DbUser, PATIENCE};

/// Longer than a lease of these rails.
const LEASE_SECONDS: i64 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    HostKilled,
    /// A host stands still until its leases are gone, and then goes on.
    LeaseLost,
    HostDrained,
    DatabaseKilled,
    DatabasePaused,
    /// The server commits, and the host never hears of it.
    AnswerSwallowed(&'static str),
    WireDisturbed,
    HostCutFromDatabase,
    RailCutOff,
    ClockMoved,
    AdapterSwapped,
    /// Requests that come again, notifications for nothing, callbacks that nobody sent.
    Repeated,
    /// Everything stands still, one after the other, and goes on in another order.
    Swizzled,
}

/// Each kind as often as every push has to see it.
const MENU: [(Fault, usize); 15] = [
    (Fault::HostKilled, 50),
    (Fault::LeaseLost, 20),
    (Fault::HostDrained, 10),
    (Fault::DatabaseKilled, 20),
    (Fault::DatabasePaused, 5),
    (Fault::AnswerSwallowed("claim_outbox_batch"), 10),
    (Fault::AnswerSwallowed("complete_outbox_batch"), 16),
    (Fault::AnswerSwallowed("mark_handed_over"), 8),
    (Fault::WireDisturbed, 20),
    (Fault::HostCutFromDatabase, 20),
    (Fault::RailCutOff, 20),
    (Fault::ClockMoved, 10),
    (Fault::AdapterSwapped, 5),
    (Fault::Repeated, 20),
    (Fault::Swizzled, 1),
];

/// The menu so many times, in an order of its own.
pub(super) fn menu(times: usize, rng: &mut Rng) -> Vec<Fault> {
    let mut menu: Vec<_> =
        MENU.iter().flat_map(|(fault, count)| std::iter::repeat_n(*fault, count * times)).collect();
    rng.shuffle(&mut menu);
    menu
}

impl Fault {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::HostKilled => "host killed",
            Self::LeaseLost => "lease lost in flight",
            Self::HostDrained => "host drained",
            Self::DatabaseKilled => "database killed",
            Self::DatabasePaused => "database paused",
            Self::AnswerSwallowed("claim_outbox_batch") => "commit of a claim swallowed",
            Self::AnswerSwallowed("mark_handed_over") => "commit of a mark swallowed",
            Self::AnswerSwallowed(_) => "commit of a completion swallowed",
            Self::WireDisturbed => "wire to the database disturbed",
            Self::HostCutFromDatabase => "host cut from database",
            Self::RailCutOff => "rail cut off",
            Self::ClockMoved => "clock moved",
            Self::AdapterSwapped => "adapter swapped",
            Self::Repeated => "duplicates",
            Self::Swizzled => "swizzle",
        }
    }
}

impl Storm {
    pub(super) async fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::HostKilled => self.kill_host().await,
            Fault::LeaseLost => self.lose_leases().await,
            Fault::HostDrained => self.drain_host().await,
            Fault::DatabaseKilled => self.kill_database().await,
            Fault::DatabasePaused => self.pause_database().await,
            Fault::AnswerSwallowed(function) => {
                if !self.swallow(function).await {
                    return;
                }
            }
            Fault::WireDisturbed => self.disturb_wire().await,
            Fault::HostCutFromDatabase => self.cut_from_database().await,
            Fault::RailCutOff => self.cut_rail_off().await,
            Fault::ClockMoved => self.move_clock().await,
            Fault::AdapterSwapped => self.swap_adapter().await,
            Fault::Repeated => self.repeat().await,
            Fault::Swizzled => self.swizzle().await,
        }
        self.count(fault.name());
    }

    async fn kill_host(&mut self) {
        let host = self.any_host();
        pause(&mut self.world.rng, 50..400).await;
        self.world.hosts[host].kill();
        pause(&mut self.world.rng, 0..100).await;
    }

    async fn lose_leases(&mut self) {
        let host = self.any_host();
        pause(&mut self.world.rng, 50..300).await;
        self.world.hosts[host].freeze();
        self.world.move_clock(LEASE_SECONDS).await;
        pause(&mut self.world.rng, 100..500).await;
        self.world.hosts[host].thaw();
    }

    async fn drain_host(&mut self) {
        let host = self.any_host();
        pause(&mut self.world.rng, 50..300).await;
        let at_work = self.world.count("payment_outbox_pending where claimed_by is not null").await > 0;
        self.world.hosts[host].serves().await;
        self.world.hosts[host].send(Signal::TERM);
        let ended = self.world.hosts[host].ended().await;
        let well = ended.is_some_and(|status| status.code() == Some(0));
        self.drained_at_work += u64::from(well && at_work);
    }

    async fn kill_database(&mut self) {
        pause(&mut self.world.rng, 50..300).await;
        let down = self.world.rng.u64(0..300);
        let Some(server) = &mut self.world.server else { return };
        server.kill().await.expect("killed");
        tokio::time::sleep(Duration::from_millis(down)).await;
        server.restart().await.expect("it is back");
        let back = Instant::now();
        let before = self.world.count("payment_outbox_attempts").await;
        self.owe(8).await;
        self.world.until("payment_outbox_attempts", |rows| rows > before).await;
        self.resumed = self.resumed.max(back.elapsed());
    }

    async fn pause_database(&mut self) {
        let Some(server) = &self.world.server else { return };
        server.freeze().expect("frozen");
        pause(&mut self.world.rng, 200..1500).await;
        server.thaw().expect("thawed");
    }

    /// False if nobody ever calls that function.
    async fn swallow(&mut self, function: &'static str) -> bool {
        let host = self.any_host();
        let of = |storm: &Self| {
            storm.world.hosts[host].wire.swallowed().get(function).copied().unwrap_or_default()
        };
        let before = of(self);
        self.world.hosts[host].wire.swallow_next(function);
        let began = Instant::now();
        while of(self) == before && began.elapsed() < PATIENCE {
            self.raise_hosts();
            self.owe(4).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        self.world.hosts[host].wire.disarm();
        of(self) > before
    }

    async fn disturb_wire(&mut self) {
        let host = self.any_host();
        let mode = match self.world.rng.u8(..3) {
            0 => Mode::Through,
            1 => Mode::Slow(Duration::from_millis(self.world.rng.u64(5..60))),
            _ => Mode::Sliced,
        };
        self.world.hosts[host].wire.set(mode);
        pause(&mut self.world.rng, 100..500).await;
        let wire = &self.world.hosts[host].wire;
        wire.cut();
        wire.set(Mode::Through);
    }

    async fn cut_from_database(&mut self) {
        let host = self.any_host();
        let mode = if self.world.rng.bool() { Mode::Frozen } else { Mode::Refusing };
        self.world.hosts[host].wire.set(mode);
        pause(&mut self.world.rng, 200..1000).await;
        self.world.hosts[host].wire.set(Mode::Through);
    }

    async fn cut_rail_off(&mut self) {
        let rail = self.any_rail();
        // Silence goes on for longer than a call waits for a reply, now and then.
        let (mode, longest) =
            if self.world.rng.bool() { (Mode::Frozen, 2500) } else { (Mode::Refusing, 1000) };
        self.world.rails[rail].wire.set(mode);
        pause(&mut self.world.rng, 200..longest).await;
        self.world.rails[rail].wire.set(Mode::Through);
    }

    /// Forward by up to an hour, or back by five seconds.
    async fn move_clock(&mut self) {
        let seconds = match self.world.rng.u8(..3) {
            0 => -5,
            _ => self.world.rng.i64(1..3600),
        };
        self.world.move_clock(seconds).await;
        pause(&mut self.world.rng, 50..300).await;
    }

    async fn swap_adapter(&mut self) {
        let rail = self.any_rail();
        self.world.touch_rail(rail);
        self.world.hosts.iter().for_each(|host| host.send(Signal::HUP));
        pause(&mut self.world.rng, 100..400).await;
    }

    async fn repeat(&mut self) {
        let mut owner = self.world.db.connect(DbUser::Superuser).await;
        for _ in 0..20 {
            sqlx::query("select pg_notify('outbox_pending', 'new_work')")
                .execute(&mut owner)
                .await
                .expect("rung");
        }
        self.world.submit_again(20).await;
        self.world.forge_callbacks(5).await;
    }

    async fn swizzle(&mut self) {
        let hosts = self.world.hosts.len();
        for host in 0..hosts {
            self.world.hosts[host].freeze();
            pause(&mut self.world.rng, 50..200).await;
        }
        if let Some(server) = &self.world.server {
            server.freeze().expect("frozen");
        }
        for rail in &self.world.rails {
            rail.wire.set(Mode::Frozen);
        }
        pause(&mut self.world.rng, 300..1000).await;
        let mut order: Vec<usize> = (0..hosts + 2).collect();
        self.world.rng.shuffle(&mut order);
        for what in order {
            match what.checked_sub(hosts) {
                None => self.world.hosts[what].thaw(),
                Some(0) => self.world.rails.iter().for_each(|rail| rail.wire.set(Mode::Through)),
                Some(_) => {
                    if let Some(server) = &self.world.server {
                        server.thaw().expect("thawed");
                    }
                }
            }
            pause(&mut self.world.rng, 50..200).await;
        }
    }
}
