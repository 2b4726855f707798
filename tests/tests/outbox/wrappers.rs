//! The host's own wrappers: errors by name, one bad row alone, a listener that survives its connection.

use std::collections::BTreeMap;

use harness::sql::scalar;
use harness::{Db, DbUser, PATIENCE, on_each_postgres};
use outbox::Error;
use outbox::complete::Completion;
use outbox::enqueue::{Ingest, NewPayment};
use outbox::lease::{Executor, Lease, Repaired, Restrictions};
use outbox::operate::{Operator, Reason};
use outbox::read::Reader;
use outbox::wake::{NotificationListener, Wakeup};
use serde_json::{Value, json};
use sqlx::Connection;
use verdict::outcome::{CompletionState, MoneyMoved, Outcome};

fn payments(count: usize) -> Vec<NewPayment> {
    (0..count)
        .map(|n| NewPayment {
            instruction_id: format!("instruction-{n}"),
            participant_id: format!("participant-{}", n % 7),
            idempotency_key: format!("key-{n}"),
            rail_type: "mock".to_owned(),
            payload: json!({ "amount": "1.00" }).into(),
        })
        .collect()
}

async fn leased(db: &Db, count: usize) -> (Executor, Vec<Lease>) {
    let accepted = Ingest::new(&db.database(), 1).enqueue_batch(&payments(count)).await.expect("enqueued");
    assert!(accepted.iter().all(Result::is_ok));
    let executor = Executor::new(&db.database(), "worker-1", 2);
    let rows = i32::try_from(count).expect("a small number");
    let leases = executor.claim_any(rows, 45.0).await.expect("claimed");
    assert_eq!(leases.len(), count);
    (executor, leases)
}

fn dispatched(leases: &[Lease]) -> Vec<Completion> {
    leases
        .iter()
        .map(|lease| Completion {
            lease: lease.lease_ref(),
            outcome: Outcome::new(CompletionState::Dispatched),
        })
        .collect()
}

on_each_postgres! {
    async fn a_nul_in_a_reference_neither_fails_its_row_nor_its_neighbours(db: Db) {
        let (executor, leases) = leased(&db, 500).await;
        let mut completions = dispatched(&leases);
        completions[250].outcome.rail_reference = Some("REF\0-1".to_owned());
        let answers = executor.complete_batch(&completions).await.expect("answered");
        assert!(answers.iter().all(Result::is_ok));
        let events = Reader::new(&db.database()).timeline(leases[250].outbox_id).await.expect("read");
        assert_eq!(events[1].detail["rail_reference"], json!("REF\u{fffd}-1"));
    }

    async fn a_row_that_hits_a_rule_of_the_schema_fails_alone_in_a_batch_of_500(db: Db) {
        let (executor, leases) = leased(&db, 500).await;
        let poisoned = leases[123].outbox_id;
        // Only the owner can bring this about: a verdict is there although the payment is pending.
        let mut owner = db.connect(DbUser::Superuser).await;
        sqlx::query(
            "insert into symphony.payment_outbox_attempts
                    (outbox_id, lease_token, sequence_id, claimed_at, completed_at, created_at, attempt_no, state,
                     instruction_id, participant_id, idempotency_key, rail_type, worker_id, money_moved, payload)
             select outbox_id, gen_random_uuid(), sequence_id, now(), now(), now(), 1, 'DISPATCHED', instruction_id,
                    participant_id, idempotency_key, rail_type, 'nobody', 'yes', payload
               from symphony.payment_outbox_pending
              where outbox_id = $1",
        )
        .bind(poisoned)
        .execute(&mut owner)
        .await
        .expect("planted");
        let answers = executor.complete_batch(&dispatched(&leases)).await.expect("answered");
        for (lease, answer) in leases.iter().zip(&answers) {
            match answer {
                Ok(completed) => assert_eq!(completed.outbox_id, lease.outbox_id, "answers keep the order"),
                Err(error) => {
                    assert!(matches!(error, Error::TerminalGuard(_)), "{error}");
                    assert_eq!(lease.outbox_id, poisoned);
                }
            }
        }
        assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 1);
    }

    async fn a_payload_that_the_database_cannot_hold_is_refused_alone(db: Db) {
        let mut wanted = payments(500);
        wanted[77].payload = json!({ "narrative": "a\u{0}b" }).into();
        wanted[300].instruction_id = "with\0nul".to_owned();
        wanted[400].payload = Value::String("no object".to_owned()).into();
        let answers = Ingest::new(&db.database(), 1).enqueue_batch(&wanted).await.expect("answered");
        let refused: Vec<usize> = (0..500).filter(|&n| answers[n].is_err()).collect();
        assert_eq!(refused, [77, 300, 400]);
        assert!(refused.iter().all(|&n| matches!(answers[n], Err(Error::InvalidArgument(_)))));
        assert!(Reader::new(&db.database()).gaps(None).await.expect("read").is_empty());
    }

    async fn each_refusal_has_its_name(db: Db) {
        let (executor, leases) = leased(&db, 1).await;
        let ingest = Ingest::new(&db.database(), 1);
        let mut other_body = payments(1);
        other_body[0].payload = json!({ "amount": "2.00" }).into();
        assert!(matches!(ingest.enqueue(&other_body[0]).await, Err(Error::KeyReused(_))));

        let stranger = Executor::new(&db.database(), "worker-2", 1);
        let completion = Completion { lease: leases[0].lease_ref(), outcome: Outcome::new(CompletionState::Dispatched) };
        assert!(matches!(stranger.complete(&completion).await, Err(Error::LeaseLost(_))));

        let contradiction = Completion {
            outcome: Outcome { money_moved: Some(MoneyMoved::Yes), ..Outcome::new(CompletionState::Failed) },
            ..completion.clone()
        };
        assert!(matches!(executor.complete(&contradiction).await, Err(Error::InvalidArgument(_))));
        assert!(matches!(executor.claim_any(-1, 45.0).await, Err(Error::InvalidArgument(_))));
        assert!(matches!(executor.claim_any(1, 1e9).await, Err(Error::InvalidArgument(_))));
        assert!(executor.complete(&completion).await.is_ok());
        let again = executor.complete(&completion).await.expect("recognised");
        assert!(again.repeated);
    }

    async fn what_repair_ended_says_over_which_rail_and_how(db: Db) {
        let (executor, leases) = leased(&db, 1).await;
        db.move_clock("46 seconds").await;
        let ended = Repaired {
            outbox_id: leases[0].outbox_id,
            attempt_no: 1,
            state: "ZOMBIE_REQUEUE".to_owned(),
            rail_type: "mock".to_owned(),
        };
        assert_eq!(executor.repair(10).await.expect("repaired"), [ended]);
    }

    async fn a_host_learns_what_a_person_stopped(db: Db) {
        let executor = Executor::new(&db.database(), "worker-1", 1);
        assert_eq!(executor.restrictions().await.expect("read"), Restrictions::default());
        let operator = Operator::new(&db.database()).also_unseen(true);
        let reason = Reason { by: "tester".to_owned(), why: "a test".to_owned() };
        operator.pause_rail("mock", &reason).await.expect("paused");
        operator.suspend_participant("participant-1", &reason).await.expect("suspended");
        let stopped = Restrictions { rails: vec!["mock".to_owned()], participants: vec!["participant-1".to_owned()], ..Restrictions::default() };
        assert_eq!(executor.restrictions().await.expect("read"), stopped);
    }

    async fn a_host_counts_the_queue_as_its_status_says_and_reads_no_success_for_it(db: Db) {
        let (executor, leases) = leased(&db, 20).await;
        let mut completions = dispatched(&leases[..12]);
        completions[0].outcome = Outcome { money_moved: Some(MoneyMoved::No), ..Outcome::new(CompletionState::Failed) };
        executor.complete_batch(&completions).await.expect("answered");
        let again = Outcome {
            unsettled: Some(true),
            retry_delay_seconds: Some(0.0),
            ..Outcome::new(CompletionState::Retryable)
        };
        executor.complete(&Completion { lease: leases[12].lease_ref(), outcome: again }).await.expect("it is held");
        let elsewhere = NewPayment { rail_type: "elsewhere".to_owned(), ..payments(21).remove(20) };
        Ingest::new(&db.database(), 1).enqueue(&elsewhere).await.expect("enqueued");

        let reader = Reader::new(&db.database());
        let (counts, status) = (reader.queue().await.expect("counted"), reader.status().await.expect("read"));
        assert_eq!((counts.len(), status.len()), (3, 3), "two rails and the total: {counts:?}");
        for expected in &status {
            let found = counts.iter().find(|count| count.rail_type == expected.rail_type).expect("it is counted");
            assert_eq!(
                (found.pending, found.leased_count, found.expired_lease_count),
                (expected.pending, expected.leased_count, expected.expired_lease_count)
            );
            for (found, expected) in [
                (found.oldest_pending_age_seconds, expected.oldest_pending_age_seconds),
                (found.longest_wait_seconds, expected.longest_wait_seconds),
            ] {
                let apart = found.zip(expected).map(|(found, expected)| (found - expected).abs());
                assert!(apart.is_some_and(|seconds| seconds < PATIENCE.as_secs_f64()), "{found:?} and {expected:?}");
            }
            let dead_letters = expected.rail_type.is_none().then_some(expected.dead_letters);
            assert_eq!(found.dead_letters, dead_letters);
        }

        let mut owner = db.connect(DbUser::Superuser).await;
        let mut open = owner.begin().await.expect("a transaction");
        let read = "select sum(seq_tup_read + idx_tup_fetch)::bigint from pg_stat_xact_user_tables
                     where relname like 'payment_outbox_attempts_2%'";
        let before: i64 = scalar(&mut *open, read).await;
        scalar::<i64>(&mut *open, "select count(*) from symphony.count_queue()").await;
        let of_history = scalar::<i64>(&mut *open, read).await - before;
        assert!(of_history <= 1, "{of_history} rows were read to count one dead letter");
    }

    async fn a_sleeper_is_notified_and_told_when_it_may_have_missed_a_notification(db: Db) {
        let executor = Executor::new(&db.database(), "sleeper", 1);
        executor.report(&["mock".to_owned()], true, &BTreeMap::new()).await.expect("reported");
        let mut listener = NotificationListener::listen(&db.database()).await.expect("listening");
        let ingest = Ingest::new(&db.database(), 1);
        ingest.enqueue(&payments(1)[0]).await.expect("enqueued");
        let woken = tokio::time::timeout(PATIENCE, listener.wait()).await.expect("it is notified");
        assert_eq!(woken, Wakeup::Notified);

        let mut owner = db.connect(DbUser::Superuser).await;
        sqlx::query("select pg_terminate_backend(pid) from pg_stat_activity where query like 'LISTEN%' and datname = current_database()")
            .execute(&mut owner)
            .await
            .expect("cut");
        let back = tokio::time::timeout(PATIENCE, listener.wait()).await.expect("it comes back");
        assert_eq!(back, Wakeup::Reconnected);
        ingest.enqueue(&payments(2)[1]).await.expect("enqueued");
        let woken = tokio::time::timeout(PATIENCE, listener.wait()).await.expect("and is notified again");
        assert_eq!(woken, Wakeup::Notified);
    }
}
