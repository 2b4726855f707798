//! Statements that are not answered: nothing is left behind that looks like a payment under way.

use std::time::{Duration, Instant};

use dev::embedded::{Server, ServerOptions};
use harness::host::{
    Process, RAIL, count, enqueue, enqueue_as, number, pay, until, until_all_have_a_verdict,
};
use harness::sql::run;
use harness::{Db, DbUser, PATIENCE, Pg, scratch_folder};
use rustix::process::Signal;
use sqlx::{Connection, PgConnection};

use crate::switches::long;
use crate::writes::value;

/// What a host opens at most: the relayer's 8, one that listens, two for the pages, one for loads and probes, one that cancels.
const BACKENDS_MAX: i64 = 8 + 1 + 2 + 1 + 1;

/// Longer than a host waits for one.
const A_STATEMENT: Duration = Duration::from_secs(25);

async fn own_server() -> (Server, Db) {
    let options = ServerOptions { major: Some(18), ..ServerOptions::throwaway(scratch_folder("silent")) };
    let server = Server::start(options).await.unwrap_or_else(|error| panic!("{error}"));
    let db = Db::on(Pg::V18, server.connect_options()).await;
    (server, db)
}

/// Leases that ran out under payments that were never given to the rail: who gave one away hears of it late, and says so.
const ZOMBIES_UNSENT: &str = "payment_outbox_attempts z where z.state = 'ZOMBIE_REQUEUE'
    and not exists (select 1 from symphony.payment_outbox_late_answers l
                     where l.outbox_id = z.outbox_id and l.lease_token = z.lease_token)";

/// Looks at the host's backends for so long; the most that it saw.
async fn most_backends(db: &Db, during: Duration) -> i64 {
    let began = Instant::now();
    let mut most = 0;
    while began.elapsed() < during {
        let seen =
            number(db, "select count(*) from pg_stat_activity where application_name like 'railhost%'").await;
        most = most.max(seen);
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    most
}

/// Every commit waits for a standby that is not there, and an outcome is among them. Between two claims nothing is under way, and
/// then none follows: in that case the standby comes back, and goes once more. Answers the most backends that the host had.
async fn without_standby(owner: &mut PgConnection, db: &Db, host: &Process) -> i64 {
    let patience = Instant::now();
    loop {
        run(&mut *owner, "alter system set synchronous_standby_names = 'away'").await;
        run(&mut *owner, "select pg_reload_conf()").await;
        let most = most_backends(db, long(Duration::from_secs(35), Duration::from_secs(90))).await;
        let looked = Instant::now();
        while looked.elapsed() < A_STATEMENT {
            let (_, metrics) = host.page("/metrics").await;
            if value(&metrics, "outcome_writes_waiting") > 0.0 {
                return most;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(patience.elapsed() < PATIENCE, "no outcome met the silence");
        run(&mut *owner, "alter system set synchronous_standby_names = ''").await;
        run(&mut *owner, "select pg_reload_conf()").await;
        let dispatched = "payment_outbox_attempts where state = 'DISPATCHED'";
        let before = count(db, dispatched).await;
        until(db, dispatched, |rows| rows > before).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_is_away_makes_no_zombie_of_what_was_never_sent() {
    let (server, db) = own_server().await;
    let mut owner = db.connect(DbUser::Superuser).await;
    enqueue(&db, &vec![pay("1.00"); 2_000]).await;
    // Some are always under way: their outcomes meet the silence.
    enqueue_as(&db, "slow", "mock", &vec![pay("1.80"); 1_000]).await;
    let host = Process::serving(&db, RAIL);
    until(&db, "payment_outbox_attempts where state = 'DISPATCHED'", |rows| rows > 0).await;
    let most = without_standby(&mut owner, &db, &host).await;
    assert!(most <= BACKENDS_MAX, "{most} backends");
    assert_eq!(host.page("/readyz").await.0, 503, "no outcome is durable before a standby has it");
    run(&mut owner, "alter system set synchronous_standby_names = ''").await;
    run(&mut owner, "select pg_reload_conf()").await;
    until_all_have_a_verdict(&db).await;
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 3_000);
    assert_eq!(count(&db, ZOMBIES_UNSENT).await, 0);
    host.until_page("/metrics", |text| value(text, "unconfirmed_commits_total") > 0.0).await;
    assert_eq!(host.end(Signal::TERM), Some(0));
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_on_the_queue_makes_no_zombie_and_piles_up_no_backends() {
    let (server, db) = own_server().await;
    enqueue(&db, &vec![pay("1.00"); 3_000]).await;
    let host = Process::serving(&db, RAIL);
    until(&db, "payment_outbox_attempts where state = 'DISPATCHED'", |rows| rows > 0).await;
    let mut owner = db.connect(DbUser::Superuser).await;
    let mut lock = owner.begin().await.expect("begun");
    run(&mut *lock, "lock table symphony.payment_outbox_pending in exclusive mode").await;
    let most = most_backends(&db, long(Duration::from_secs(25), Duration::from_secs(65))).await;
    lock.rollback().await.expect("let go");
    assert!(most <= BACKENDS_MAX, "{most} backends");
    until_all_have_a_verdict(&db).await;
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 3_000);
    assert_eq!(count(&db, ZOMBIES_UNSENT).await, 0);
    assert_eq!(host.end(Signal::TERM), Some(0));
    drop(server);
}
