//! A rail whose file comes while a host runs.

use harness::host::{Process, RAIL, configure_rail, count, enqueue_as, pay, until_all_have_a_verdict};
use harness::on_each_postgres;
use rustix::process::Signal;

const HEARD: &[(&str, &str)] = &[("RAILHOST_LOG", "info")];

on_each_postgres! {
    async fn a_new_rail_is_served_without_a_restart(db: Db) {
        let host = Process::with(&db, RAIL, "", HEARD);
        host.until_it_says("ready after").await;
        host.put_rail("second", RAIL);
        enqueue_as(&db, "i", "second", &vec![pay("1.00"); 3]).await;
        until_all_have_a_verdict(&db).await;
        assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED' and rail_type = 'second'").await, 3);
        assert_eq!(host.end(Signal::TERM), Some(0));
    }

    async fn a_new_rail_whose_rate_the_database_does_not_know_waits_for_migrate(db: Db) {
        let host = Process::with(&db, RAIL, "", HEARD);
        host.until_it_says("ready after").await;
        host.put_rail("second", &format!("rate = {{ per_second = 50, burst = 10 }}\n{RAIL}"));
        enqueue_as(&db, "i", "second", &vec![pay("1.00"); 3]).await;
        host.until_it_says("second: its file is new, and it is not served yet").await;
        assert!(host.said().contains("run railhost migrate"), "{}", host.said());
        assert_eq!(count(&db, "payment_outbox_attempts").await, 0);
        // What nobody serves yet may still be put right.
        host.put_rail("second", &format!("rate = {{ per_second = 40, burst = 10 }}\n{RAIL}"));
        configure_rail(&db, "second", Some((40, 10))).await;
        until_all_have_a_verdict(&db).await;
        assert!(host.said().contains("second: its file is new, and it is served from now on"), "{}", host.said());
        assert_eq!(host.end(Signal::TERM), Some(0));
    }
}
