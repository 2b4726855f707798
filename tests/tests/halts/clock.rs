//! The database's clock steps, under load, on a rail with a rate.

use std::time::{Duration, Instant};

use harness::host::{Host, RAIL, configure, count, enqueue_as, pay, until_all_have_a_verdict};
use harness::{Db, PATIENCE, on_each_postgres};
use relayer::RelayerOptions;

/// Where the clock stands, one after the other: it steps forward and back by ten minutes and by an hour.
const OFFSETS: [&str; 6] = ["10 minutes", "0", "-10 minutes", "50 minutes", "-10 minutes", "-70 minutes"];

on_each_postgres! {
    async fn dispatch_goes_on_whichever_way_the_clock_steps(db: Db) {
        configure(&db, Some((200, 20))).await;
        let rail = format!("{RAIL}\n[rate]\nper_second = 200\nburst = 20\n");
        let host = Host::with_rails(&db, &[("mock", &rail)], RelayerOptions::default()).await;
        let mut waves = 0_i64;
        for offset in OFFSETS {
            enqueue_as(&db, &format!("wave-{waves}"), "mock", &vec![pay("1.00"); 300]).await;
            db.move_clock(offset).await;
            waves += 1;
            enqueue_as(&db, &format!("wave-{waves}"), "mock", &vec![pay("1.00"); 10]).await;
            waves += 1;
            // However much was dispatched before it stepped: what came after it is among the rest.
            let stepped = Instant::now();
            while dispatched(&db).await < waves / 2 * 310 {
                assert!(stepped.elapsed() < PATIENCE, "nothing moves since the clock stepped to {offset}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            println!("{offset}: dispatch went on within {:?}", stepped.elapsed());
        }
        until_all_have_a_verdict(&db).await;
        host.drain().await;
        assert_eq!(dispatched(&db).await, 6 * 310);
    }

    async fn a_lease_of_a_dead_host_ends_in_time_after_the_clock_went_back(db: Db) {
        enqueue_as(&db, "left", "mock", &vec![pay("1.00"); 5]).await;
        let dead = outbox::lease::Executor::new(&db.database(), "dead", 1);
        assert_eq!(dead.claim_any(5, 5.0).await.expect("claimed").len(), 5);
        db.move_clock("-1 hour").await;
        let host = Host::start(&db, RelayerOptions::default()).await;
        until_all_have_a_verdict(&db).await;
        host.drain().await;
        assert_eq!(count(&db, "payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'").await, 5);
    }
}

async fn dispatched(db: &Db) -> i64 {
    count(db, "payment_outbox_attempts where state = 'DISPATCHED'").await
}
