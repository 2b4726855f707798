//! Disks and machines that are lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dev::embedded::{self, Server, ServerOptions};
use harness::evidence::Proof;
use harness::world::wire::{Far, Mode};
use harness::world::{Plan, Wanted, World};
use harness::{Db, DbUser, PATIENCE, Pg};
use rail_simulators::Name;
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection};

/// A disk of a few hundred megabytes, gone with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Not everybody may mount something: then the reason.
    fn mount() -> Result<Self, String> {
        let place = harness::scratch_folder("small-disk");
        fs::create_dir_all(&place).expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=260m,mode=755", "tmpfs"])
            .arg(&place)
            .output()
            .expect("mount runs");
        match mounted.status.success() {
            true => Ok(Self(place)),
            false => Err(String::from_utf8_lossy(&mounted.stderr).trim().to_owned()),
        }
    }

    /// Writes until there is no room.
    fn fill(&self) {
        let filled = Command::new("dd")
            .args(["if=/dev/zero", "bs=64k"])
            .arg(format!("of={}", self.0.join("filler").display()))
            .output()
            .expect("dd runs");
        assert!(!filled.status.success(), "it has no end");
    }

    fn empty(&self) {
        fs::remove_file(self.0.join("filler")).expect("removed");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fi_07_a_full_disk_stops_everything_and_costs_nothing() {
    let proof = Proof::of("FI-07 disk", "disk full");
    let disk = match SmallDisk::mount() {
        Ok(disk) => disk,
        Err(why) => return proof.not_tried(&format!("a small disk needs the right to mount a tmpfs: {why}")),
    };
    let options = ServerOptions {
        major: Some(18),
        settings: [("max_wal_size", "64MB"), ("min_wal_size", "32MB"), ("shared_buffers", "32MB")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        ..ServerOptions::throwaway(disk.0.join("postgres"))
    };
    let server = Server::start(options).await.expect("a server");
    let db = Db::on(Pg::V18, server.connect_options()).await;
    let plan =
        Plan { hosts: 2, ..Plan::new(7, vec![Wanted::new(Name::Mtn, "amount *.50: pay close-after")]) };
    let mut world = World::over(plan, Some(server), db).await;
    world.start_hosts();
    let mut refused = 0;
    for _ in 0..2 {
        let amounts: Vec<_> =
            ["5.00", "5.50"].iter().cycle().take(100).map(|amount| (*amount).to_owned()).collect();
        world.owe(0, &amounts).await;
        disk.fill();
        refused += fill_up(&world.db).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        disk.empty();
        world.server.as_mut().expect("its own").restart().await.expect("it is back");
        world.heal().await;
    }
    assert!(refused > 0, "the disk was never full");
    assert_eq!(world.converge(PATIENCE).await, 0);
    world.drain().await;
    let audit = world.audit().await;
    assert!(audit.is_clean(), "{audit:#?}");
    proof.holds(json!({ "times_full": 2, "audit": audit }));
    drop(world);
}

/// Asks for space until the server refuses. Answers how often it did.
async fn fill_up(db: &Db) -> u32 {
    let Ok(mut owner) = PgConnection::connect_with(&db.options(DbUser::Superuser)).await else { return 1 };
    let filled = owner
        .execute(
            "create table if not exists filler as select repeat('x', 1000) from generate_series(1, 300000)",
        )
        .await;
    u32::from(filled.is_err())
}

/// A program that comes with PostgreSQL 15: where the server really stands, else wherever it is found.
fn beside_the_server(name: &str) -> PathBuf {
    let server = embedded::find(Some(15)).expect("PostgreSQL 15").bin.join("postgres");
    let program = server.canonicalize().expect("the server").with_file_name(name);
    if program.is_file() { program } else { name.into() }
}

/// A copy of a running server, that follows it.
async fn standby_of(primary: &Server) -> Server {
    let folder = harness::scratch_folder("standby");
    fs::create_dir_all(&folder).expect("a folder");
    let data = folder.join("data");
    let password = fs::read_to_string(primary.folder().join("password")).expect("a password");
    let copied = Command::new(beside_the_server("pg_basebackup"))
        .env("PGPASSWORD", password.trim())
        .arg("--pgdata")
        .arg(&data)
        .arg("--host")
        .arg(primary.socket_folder())
        .args(["--port", &primary.connect_options().get_port().to_string(), "--username", "postgres"])
        .args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast"])
        .output()
        .unwrap_or_else(|error| panic!("no pg_basebackup, install PostgreSQL 15 whole: {error}"));
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    fs::copy(primary.folder().join("password"), folder.join("password")).expect("copied");
    // By which the embedded server knows a folder of its own.
    fs::write(folder.join("lock"), "").expect("written");
    // pg_basebackup remembers the password only where it is told to.
    let recovery = data.join("postgresql.auto.conf");
    let told = fs::read_to_string(&recovery).expect("read");
    let told = told.replace(
        "primary_conninfo = '",
        &format!("primary_conninfo = 'application_name=standby password={} ", password.trim()),
    );
    fs::write(&recovery, told).expect("written");
    give_like(&folder, primary.folder());
    let options = ServerOptions {
        major: Some(15),
        settings: vec![("hot_standby".to_owned(), "on".to_owned())],
        ..ServerOptions::throwaway(folder)
    };
    Server::start(options).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Everything below a folder belongs to whom another one belongs to.
fn give_like(folder: &Path, like: &Path) {
    let given = Command::new("chown")
        .arg("-R")
        .arg(format!("--reference={}", like.display()))
        .arg(folder)
        .status()
        .expect("chown runs");
    assert!(given.success());
    Command::new("chmod").args(["-R", "u=rwX,g=,o="]).arg(folder).status().expect("chmod runs");
}

async fn change_setting(owner: &mut PgConnection, change: &'static str) {
    owner.execute(change).await.expect("set");
    owner.execute("select pg_reload_conf()").await.expect("reloaded");
}

/// The standby is the primary from now on, and its commits wait for nobody.
async fn promote(standby: &Server) -> Db {
    let promoted = Db::at(Pg::V15, standby.connect_options());
    let mut owner = promoted.connect(DbUser::Superuser).await;
    owner.execute("select pg_promote()").await.expect("promoted");
    change_setting(&mut owner, "alter system set synchronous_standby_names = ''").await;
    promoted
}

fn lead_hosts_to(world: &World, server: &Server) {
    let socket = server.socket_folder().join(format!(".s.PGSQL.{}", server.connect_options().get_port()));
    for host in &world.hosts {
        host.wire.lead_to(Far::Unix(socket.clone()));
        host.wire.set(Mode::Through);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dr_04_no_acknowledged_transition_is_lost_with_the_primary() {
    let proof = Proof::of("DR-04", "primary lost, standby promoted");
    let settings = [("wal_level", "replica"), ("max_wal_senders", "4"), ("wal_keep_size", "256MB")];
    let options = ServerOptions {
        major: Some(15),
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        ..ServerOptions::throwaway(harness::scratch_folder("primary"))
    };
    let primary = Server::start(options).await.expect("a server");
    let db = Db::on(Pg::V15, primary.connect_options()).await;
    let standby = standby_of(&primary).await;
    let mut owner = db.connect(DbUser::Superuser).await;
    change_setting(&mut owner, "alter system set synchronous_standby_names = 'standby'").await;
    let script = "amount *.10: pay close-after\namount *.20: then pending, after 500ms settled\notherwise: pay slow 50";
    // A rail that does not deduplicate may be served here: no commit is forgotten.
    let wanted = vec![
        Wanted::new(Name::Mtn, script),
        Wanted {
            name: "plain-bank",
            forgetful: true,
            can_query: false,
            ..Wanted::new(Name::Bank, "otherwise: pay slow 50")
        },
    ];
    let mut world = World::over(Plan { hosts: 2, ..Plan::new(4, wanted) }, Some(primary), db).await;
    world
        .until(
            "outbox_status s where exists (select 1 from pg_stat_replication where sync_state = 'sync')",
            |rows| rows > 0,
        )
        .await;
    world.start_hosts();
    let amounts: Vec<_> = (0..200).map(|n| format!("{}.{}0", n + 1, n % 5)).collect();
    for rail in 0..2 {
        world.owe(rail, &amounts).await;
    }
    world.until("payment_outbox_attempts where state = 'DISPATCHED'", |rows| rows > 20).await;

    let mut lost = world.server.take().expect("the primary");
    lost.kill().await.expect("killed");
    world.db = promote(&standby).await;
    lead_hosts_to(&world, &standby);
    world.server = Some(standby);
    world.move_clock(20).await;
    world.heal().await;
    assert_eq!(world.converge(PATIENCE).await, 0);
    world.drain().await;
    let audit = world.audit().await;
    assert!(audit.is_clean(), "{audit:#?}");
    proof.holds(json!(audit));
}
