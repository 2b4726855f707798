//! Leasing: which rows, in which order, for how long, and never to two holders.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use harness::sql::{
    Answer, Hands, Leased, Request, WORKER, claim, claim_with, column, complete_batch, refusal, run, scalar,
    try_run, until_waiting,
};
use harness::{DbUser, PATIENCE, on_each_postgres};
use sqlx::Connection;

on_each_postgres! {
    async fn rows_are_leased_in_the_order_in_which_they_fall_due(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 5).await;
        for (number, offset) in [(1, "-1 s"), (2, "-3 s"), (3, "1 hour"), (4, "-2 s"), (5, "-4 s")] {
            due(&mut hands, &format!("sequence_id = {number}"), offset).await;
        }
        assert_eq!(numbers(&hands.claim(3).await), [5, 2, 4]);
        assert_eq!(numbers(&hands.claim(3).await), [1], "a scheduled row is not leased");
        assert_eq!(hands.claim(3).await, [], "nor a leased one");
        db.move_clock("61 minutes").await;
        let late = claim_with(&mut hands.executor, "10, 'w', 30, p_takeovers => 0").await.expect("a good claim");
        assert_eq!(numbers(&late), [3]);
    }

    async fn who_comes_behind_a_backlog_that_nobody_has_claimed_of_yet_stands_beside_its_head(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("huge", 500).await;
        db.move_clock("1 minute").await;
        hands.enqueue_many("small", 2).await;
        hands.enqueue_many("huge-too", 500).await;
        let small = hands.claim(20).await.iter().filter(|lease| lease.participant_id == "small").count();
        assert_eq!(small, 2);
    }

    async fn rows_due_at_the_same_time_are_leased_in_the_order_of_their_making(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 3).await;
        run(&mut hands.owner, "update symphony.payment_outbox_pending set next_attempt_at = '2020-01-01'").await;
        run(
            &mut hands.owner,
            "update symphony.payment_outbox_pending set created_at = created_at - sequence_id * interval '1 s'",
        )
        .await;
        assert_eq!(numbers(&hands.claim(3).await), [3, 2, 1]);
    }

    async fn a_lease_says_who_holds_it_and_until_when(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let lease = claim_with(&mut hands.executor, "1, 'me', 90.5").await.expect("a good claim").remove(0);
        assert_eq!(lease.outbox_id, id);
        assert_eq!(lease.lease_expires_at - lease.claimed_at, chrono::TimeDelta::milliseconds(90_500));
        assert_eq!((lease.attempt_count, lease.unsettled, &lease.past), (0, false, &None));
        let stored = format!(
            "payment_outbox_pending where claimed_by = 'me' and lease_token = '{}' and outbox_id = '{id}'", lease.lease_token
        );
        assert_eq!(hands.count(&stored).await, 1);
    }

    async fn rails_are_named_with_their_limits_lease_lengths_and_lower_bounds(db: Db) {
        let mut hands = Hands::of(&db).await;
        for rail in ["a", "b", "c"] {
            for n in 1..=4 {
                hands.enqueue_this(&Request::new("p", &format!("{rail}{n}")).rail(rail)).await;
            }
        }
        let leases = claim_with(
            &mut hands.executor,
            "10, 'w', 30, array['b', 'a'], array[3, 2], array[60, 120]::float8[]",
        )
        .await
        .expect("a good claim");
        assert_eq!(per_rail(&leases), [("a".to_owned(), 2), ("b".to_owned(), 3)].into());
        for lease in &leases {
            let seconds = (lease.lease_expires_at - lease.claimed_at).num_seconds();
            assert_eq!(seconds, if lease.rail_type == "a" { 120 } else { 60 });
        }
        due(&mut hands, "rail_type = 'c' and sequence_id % 2 = 0", "-1 hour").await;
        let after = "2, 'w', 30, array['c'], p_rail_after => array[symphony.clock() - interval '30 minutes']";
        let bounded = claim_with(&mut hands.executor, after).await.expect("a good claim");
        assert!(bounded.iter().all(|lease| lease.sequence_id % 2 == 1), "{bounded:?}");
        assert_eq!(bounded.len(), 2);
        let unbounded = claim_with(&mut hands.executor, "9, 'w', 30, array['c'], p_rail_after => array[null::timestamptz]");
        assert_eq!(unbounded.await.expect("a good claim").len(), 2);
        assert_eq!(claim_with(&mut hands.executor, "9, 'w', 30, '{}'").await.expect("a good claim"), [], "no rail has room");
    }

    async fn without_rails_any_is_leased_and_the_oldest_come_first(db: Db) {
        let mut hands = Hands::of(&db).await;
        for rail in ["a", "b"] {
            for n in 1..=10 {
                hands.enqueue_this(&Request::new("p", &format!("{rail}{n}")).rail(rail)).await;
            }
        }
        run(
            &mut hands.owner,
            "update symphony.payment_outbox_pending
                set next_attempt_at = symphony.clock() - interval '1 minute'
                    + (sequence_id % 10) * interval '1 s' - case when rail_type = 'b' then interval '5 s' else '0' end",
        )
        .await;
        // Due first are b's rows of seconds -65 to -61, then both rails in turn.
        assert_eq!(per_rail(&hands.claim(5).await), [("b".to_owned(), 5)].into());
        let next = per_rail(&hands.claim(4).await);
        assert_eq!(next, [("a".to_owned(), 2), ("b".to_owned(), 2)].into());
        let too_much_room = claim_with(&mut hands.executor, "2, 'w', 30, array['a', 'b'], array[50, 50]");
        assert_eq!(per_rail(&too_much_room.await.expect("a good claim")), [("a".to_owned(), 1), ("b".to_owned(), 1)].into());
    }

    async fn finished_leases_of_a_busy_rail_do_not_starve_the_others(db: Db) {
        let mut hands = Hands::of(&db).await;
        for n in 1..=40 {
            hands.enqueue_this(&Request::new("p", &format!("a{n}")).rail("a")).await;
        }
        let rows: Vec<_> = hands
            .claim(10)
            .await
            .iter()
            .map(|lease| (lease.outbox_id, lease.lease_token, Answer::new("DISPATCHED")))
            .collect();
        complete_batch(&mut hands.executor, WORKER, &rows).await.expect("they are held");
        for n in 1..=10 {
            hands.enqueue_this(&Request::new("p", &format!("b{n}")).rail("b")).await;
        }
        due(&mut hands, "rail_type = 'b'", "-1 hour").await;
        // The lease of rail a is long over; that nobody has tidied up after it must not count as work.
        db.move_clock("31 seconds").await;
        assert_eq!(per_rail(&hands.claim(10).await), [("b".to_owned(), 10)].into());
    }

    async fn absurd_arguments_are_refused(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        for arguments in [
            "0, 'w', 30", "-1, 'w', 30", "10001, 'w', 30", "null, 'w', 30", "1, '', 30", "1, null, 30",
            "1, repeat('w', 257), 30", "1, 'w', 0", "1, 'w', 0.5", "1, 'w', -30", "1, 'w', 3601", "1, 'w', 'NaN'",
            "1, 'w', 'Infinity'", "1, 'w', null", "1, 'w', 30, array['mock', 'mock']", "1, 'w', 30, array[null]::text[]",
            "1, 'w', 30, array['mock'], array[1, 2]", "1, 'w', 30, array['mock'], array[0]", "1, 'w', 30, array['mock'], array[-1]",
            "1, 'w', 30, array['mock'], array[10001]", "1, 'w', 30, array['mock'], array[null]::int[]",
            "1, 'w', 30, array['mock'], array[1], array[30, 30]::float8[]", "1, 'w', 30, array['mock'], array[1], array[0]::float8[]",
            "1, 'w', 30, array['mock'], array[1], array[3601]::float8[]",
            "1, 'w', 30, array['mock'], p_rail_after => array[now(), now()]",
            "1, 'w', 30, p_takeovers => -1", "1, 'w', 30, p_takeovers => 10001", "1, 'w', 30, p_takeovers => null",
            // Limits without rails would fall to whatever rails happen to have work.
            "1, 'w', 30, null, array[1]", "1, 'w', 30, p_rail_lease_seconds => array[60]::float8[]",
            "1, 'w', 30, p_rail_after => array[now()]",
            "1, 'w', 30, (select array_agg(n::text) from generate_series(1, 1001) as g(n))",
        ] {
            assert_eq!(refusal(claim_with(&mut hands.executor, arguments).await), "22023", "{arguments}");
        }
        for arguments in ["0, 'w'", "-1, 'w'", "10001, 'w'", "null, 'w'", "1, ''", "1, null"] {
            let repair = format!("select symphony.repair_expired_leases({arguments})");
            assert_eq!(refusal(try_run(&mut hands.executor, &repair).await), "22023", "{arguments}");
        }
        assert_eq!(hands.count("payment_outbox_pending where lease_token is null").await, 1);
        assert_eq!(hands.count("payment_outbox_claims").await, 0);
    }

    async fn concurrent_claimers_never_share_a_row(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 600).await;
        let pool = db.pool(DbUser::Executor, 8);
        let claimers: Vec<_> = (0..8)
            .map(|n| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    let mut leases = Vec::new();
                    // Skipped rows may make one claim come back short, never two sessions leave one behind.
                    let mut empty = 0;
                    while empty < 3 {
                        let more = claim(&pool, 7, &format!("w{n}")).await;
                        empty = if more.is_empty() { empty + 1 } else { 0 };
                        leases.extend(more);
                    }
                    leases
                })
            })
            .collect();
        let mut ids = Vec::new();
        for claimer in claimers {
            ids.extend(claimer.await.expect("no panic").into_iter().map(|lease| lease.outbox_id));
        }
        ids.extend(hands.claim(600).await.into_iter().map(|lease| lease.outbox_id));
        assert_eq!(ids.len(), 600);
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 600, "each row was leased once");
    }

    async fn a_claim_skips_what_another_is_leasing(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 10).await;
        let mut other = db.connect(DbUser::Executor).await;
        let mut open = other.begin().await.expect("a transaction");
        assert_eq!(numbers(&claim(&mut *open, 4, "w2").await), [1, 2, 3, 4]);
        assert_eq!(numbers(&hands.claim(4).await), [5, 6, 7, 8], "without waiting");
        open.rollback().await.expect("it rolls back");
        assert_eq!(numbers(&hands.claim(10).await), [1, 2, 3, 4, 9, 10]);
    }

    async fn tokens_of_a_rail_are_charged_with_the_claim_that_spends_them(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 100).await;
        limit(&mut hands, 1, 20).await;
        let now: DateTime<Utc> = hands.scalar("select symphony.clock()").await;
        db.hold_clock(now).await;
        let mut other = db.connect(DbUser::Executor).await;

        let mut open = hands.executor.begin().await.expect("a transaction");
        assert_eq!(claim(&mut *open, 100, "w1").await.len(), 20, "a full bucket is the burst");
        let waiting = tokio::spawn(async move { claim(&mut other, 100, "w2").await.len() });
        until_waiting(&db, 1).await;
        open.rollback().await.expect("it rolls back");
        assert_eq!(waiting.await.expect("no panic"), 20, "what was rolled back was not spent");

        assert_eq!(hands.claim(100).await, [], "all of it was spent");
        db.hold_clock(now + TimeDelta::seconds(10)).await;
        assert_eq!(hands.claim(100).await.len(), 10, "ten seconds are ten tokens");
        db.hold_clock(now + TimeDelta::hours(1)).await;
        let leases = claim_with(&mut hands.executor, "100, 'w', 30, p_takeovers => 0").await.expect("a good claim");
        assert_eq!(leases.len(), 20, "an hour is a full bucket");
    }

    async fn tokens_that_found_no_row_are_kept(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 5).await;
        limit(&mut hands, 1, 20).await;
        assert_eq!(hands.claim(100).await.len(), 5);
        hands.enqueue_many("q", 100).await;
        let rest = hands.claim(100).await.len();
        assert!(rest >= 15, "{rest} of 15 that were left");
    }

    async fn racing_hosts_never_spend_more_than_burst_and_rate_allow(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 600).await;
        limit(&mut hands, 50, 10).await;
        let pool = db.pool(DbUser::Executor, 6);
        let hosts: Vec<_> = (0..6)
            .map(|n| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    for _ in 0..15 {
                        claim(&pool, 9, &format!("w{n}")).await;
                    }
                })
            })
            .collect();
        for host in hosts {
            host.await.expect("no panic");
        }
        let (leased, seconds): (i64, f64) = sqlx::query_as(
            "select count(*), extract(epoch from max(claimed_at) - min(claimed_at))::float8
               from symphony.payment_outbox_pending where lease_token is not null",
        )
        .fetch_one(&mut hands.owner)
        .await
        .expect("it can be read");
        assert!(leased >= 10);
        assert!(leased as f64 <= 10.0 + 50.0 * seconds, "{leased} rows in {seconds} s");
    }

    async fn a_clock_that_goes_back_does_not_stop_a_rated_rail(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 100).await;
        limit(&mut hands, 5, 5).await;
        for step in ["10 minutes", "1 hour"] {
            db.move_clock(step).await;
            let ahead = claim_with(&mut hands.executor, "100, 'w', 3600, p_takeovers => 0").await.expect("a good claim");
            assert_eq!(ahead.len(), 5, "a full bucket, {step} ahead");
            db.move_clock("0").await;
            let back = hands.claim(100).await.len();
            assert_eq!(back, 5, "a second's worth after a step of {step}");
            let ahead = hands.count("rail_token_buckets where refilled_at > symphony.clock()").await;
            assert_eq!(ahead, 0, "the bucket is of this time again");
        }
    }

    async fn without_rails_rows_with_a_past_are_not_starved_by_new_ones(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("tried", 3).await;
        let rows: Vec<_> = hands
            .claim(3)
            .await
            .iter()
            .zip([Answer::retry("BUSY"), Answer::retry("OUTCOME_UNKNOWN"), Answer::retry("BUSY")])
            .map(|(lease, answer)| (lease.outbox_id, lease.lease_token, answer))
            .collect();
        complete_batch(&mut hands.executor, WORKER, &rows).await.expect("they are held");
        for n in 1..=40 {
            hands.enqueue_this(&Request::new("new", &format!("n{n}")).rail(if n % 2 == 0 { "a" } else { "b" })).await;
        }
        due(&mut hands, "attempt_count = 0", "-1 hour").await;
        let first = hands.claim(6).await;
        let tried = first.iter().filter(|lease| lease.attempt_count > 0).count();
        assert_eq!((first.len(), tried), (6, 2), "a quarter of the batch, rounded up: {first:?}");
        let next = hands.claim(6).await;
        assert_eq!(next.iter().filter(|lease| lease.attempt_count > 0).count(), 1, "what is left of them: {next:?}");
        assert_eq!(hands.claim(100).await.len(), 31, "and all the others");
    }

    async fn the_status_of_a_long_queue_does_not_ask_the_hosts_for_each_payment(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 500).await;
        run(&mut hands.executor, "select symphony.report_host('h', array['mock', 'a', 'b'], false)").await;
        let plan: Vec<String> = column(
            &mut hands.owner,
            "explain (analyze, timing off, costs off, summary off) select * from symphony.outbox_status",
        )
        .await;
        let asked = plan.iter().filter(|line| line.contains("relay_hosts"));
        let loops: Vec<usize> = asked
            .filter_map(|line| line.split("loops=").nth(1)?.trim_end_matches(')').parse().ok())
            .collect();
        assert!(!loops.is_empty() && loops.iter().all(|loops| *loops <= 4), "{plan:#?}");
        let row = "select format('%s %s', pending, unroutable) from symphony.outbox_status where rail_type = 'mock'";
        assert_eq!(hands.scalar::<String>(row).await, "500 0");
    }

    async fn a_rail_that_no_host_serves_waits_visibly(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_this(&Request::new("p", "k").rail("nowhere")).await;
        run(&mut hands.executor, "select symphony.report_host('h', array['mock'], false)").await;
        let unroutable = "select unroutable from symphony.outbox_status where rail_type = 'nowhere'";
        assert_eq!(hands.scalar::<i64>(unroutable).await, 1);
        assert_eq!(claim_with(&mut hands.executor, "1, 'h', 30, array['mock']").await.expect("a good claim"), []);
        run(&mut hands.executor, "select symphony.report_host('h', array['mock', 'nowhere'], false)").await;
        assert_eq!(hands.scalar::<i64>(unroutable).await, 0);
        assert_eq!(hands.claim(1).await.len(), 1, "a claim without rails leases any");
    }

    async fn the_next_due_time_is_that_of_the_first_scheduled_row(db: Db) {
        let mut hands = Hands::of(&db).await;
        let ask = |rails: &str| format!("select extract(epoch from symphony.next_due_at({rails}) - '2030-01-01')::float8");
        assert_eq!(scalar::<Option<f64>>(&mut hands.executor, &ask("")).await, None);
        hands.enqueue_this(&Request::new("p", "due")).await;
        assert_eq!(scalar::<Option<f64>>(&mut hands.executor, &ask("")).await, None, "what is due is for the claim to say");
        for (key, rail, second) in [("k1", "a", 5), ("k2", "a", 3), ("k3", "b", 1)] {
            let id = hands.enqueue_this(&Request::new("p", key).rail(rail)).await.outbox_id;
            let sql = format!(
                "update symphony.payment_outbox_pending
                    set next_attempt_at = timestamptz '2030-01-01' + interval '{second} s', unsettled = {}
                  where outbox_id = '{id}'",
                key == "k2"
            );
            run(&mut hands.owner, &sql).await;
        }
        assert_eq!(scalar::<Option<f64>>(&mut hands.executor, &ask("")).await, Some(1.0));
        assert_eq!(scalar::<Option<f64>>(&mut hands.executor, &ask("array['a']")).await, Some(3.0));
        assert_eq!(scalar::<Option<f64>>(&mut hands.executor, &ask("array['none']")).await, None);
    }

    async fn claims_are_hot_updates(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 2000).await;
        for _ in 0..20 {
            assert_eq!(hands.claim(100).await.len(), 100);
        }
        run(&mut hands.executor, "select pg_stat_force_next_flush()").await;
        run(&mut hands.executor, "select 1").await;
        let counted = async {
            loop {
                let counts: (i64, i64) = sqlx::query_as(
                    "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'payment_outbox_pending'",
                )
                .fetch_one(&mut hands.owner)
                .await
                .expect("it can be read");
                if counts.0 >= 2000 {
                    return counts;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let (updates, hot) = tokio::time::timeout(PATIENCE, counted).await.expect("the counters arrive");
        assert_eq!(updates, 2000, "a claim touches each row once");
        assert!(hot * 100 >= updates * 95, "{hot} of {updates} were HOT");
    }
}

fn numbers(leases: &[Leased]) -> Vec<i64> {
    leases.iter().map(|lease| lease.sequence_id).collect()
}

fn per_rail(leases: &[Leased]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for lease in leases {
        *counts.entry(lease.rail_type.clone()).or_default() += 1;
    }
    counts
}

async fn due(hands: &mut Hands, which: &str, offset: &str) {
    let sql = format!(
        "update symphony.payment_outbox_pending set next_attempt_at = symphony.clock() + interval '{offset}' where {which}"
    );
    run(&mut hands.owner, &sql).await;
}

async fn limit(hands: &mut Hands, rate_per_second: i32, burst: i32) {
    let sql = format!(
        "select symphony.configure_rail('mock', true, false, null, {rate_per_second}, {burst}, 'tester', 'a test')"
    );
    run(&mut hands.operator, &sql).await;
}
