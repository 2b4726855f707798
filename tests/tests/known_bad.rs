//! A harness that never failed is untested. Each of these leaves one guard out, and has to be caught by the audit within 200
//! faults; the same scenario with the guard in place has to be clean.

use std::time::{Duration, Instant};

use faults::{Guard, LEFT_OUT};
use harness::adapter_rig::guest;
use harness::rail_run::set;
use harness::sql::run;
use harness::world::wire::Mode;
use harness::world::{Audit, Plan, Wanted, World};
use harness::{DbUser, PATIENCE, accept_functions};
use rail_simulators::Name;
use sqlx::AssertSqlSafe;
use toml::Table;
use verdict::digest::Digest;

const FAULTS_MAX: u64 = 200;
/// Longer than a lease.
const LEASE_SECONDS: i64 = 30;
/// By which all payments of a scenario are under way at the same time, on a busy machine too.
const SLOW: &str = "slow 4000";

struct Scenario {
    world: World,
    left_out: Option<String>,
    faults: u64,
}

impl Scenario {
    async fn build(hosts: usize, wanted: Wanted, left_out: Option<Guard>) -> Self {
        let world = World::build(Plan { hosts, ..Plan::new(1, vec![wanted]) }).await;
        Self { world, left_out: left_out.map(|guard| format!("{guard:?}")), faults: 0 }
    }

    /// With a rail whose slow replies are waited for.
    async fn patient(hosts: usize, wanted: Wanted, left_out: Option<Guard>) -> Self {
        let scenario = Self::build(hosts, wanted, left_out).await;
        scenario.world.change_rail(0, |file| {
            let patient = "call_ms = 15000\nfirst_byte_ms = 12000\nidle_ms = 12000\nconnect_ms = 12000";
            file["timeouts"] = patient.parse::<Table>().expect("TOML").into();
            file["pace"].as_table_mut().expect("a pace").insert("lease_seconds".to_owned(), 25.into());
        });
        scenario
    }

    fn start(&mut self) {
        // With all call slots of the rail from the start: many payments are to meet the same fault.
        let left_out = format!("{},{:?}", self.left_out.as_deref().unwrap_or_default(), Guard::BeginsWithOne);
        self.world.hosts.iter_mut().for_each(|host| host.start(&[(LEFT_OUT, &left_out)]));
    }

    async fn owe(&mut self, count: usize) {
        self.world.owe(0, &vec!["5.00".to_owned(); count]).await;
    }

    async fn end(mut self) -> (Audit, World) {
        let open = self.world.converge(PATIENCE).await;
        assert_eq!(open, 0, "payments are stuck");
        self.world.drain().await;
        let spoilt: u64 = self.world.rails[0].simulator.counts().faults.values().sum();
        assert!((1..=FAULTS_MAX).contains(&(self.faults + spoilt)), "{} faults", self.faults + spoilt);
        (self.world.audit().await, self.world)
    }
}

/// Payments whose rail pays and whose reply is lost.
async fn lost_replies(left_out: Option<Guard>) -> Audit {
    let mut scenario =
        Scenario::build(1, Wanted::new(Name::Mtn, "otherwise: pay close-after, accept"), left_out).await;
    scenario.start();
    scenario.owe(10).await;
    scenario.end().await.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_key_for_every_attempt_is_caught() {
    assert!(lost_replies(None).await.is_clean());
    let audit = lost_replies(Some(Guard::StableKey)).await;
    assert!(audit.doubled > 0 && audit.orphaned > 0, "{audit:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_taken_for_a_refusal_is_caught() {
    let audit = lost_replies(Some(Guard::SilenceIsUnknown)).await;
    assert_eq!(audit.disagreed, 10, "{audit:#?}");
}

/// A rail that does not recognise a key, loses its replies, and cannot answer the first questions.
async fn failed_questions(left_out: Option<Guard>) -> Audit {
    let script = "otherwise: pay close-after, accept; ask html 503, html 503, accept";
    let wanted = Wanted { forgetful: true, ..Wanted::new(Name::Mtn, script) };
    let mut scenario = Scenario::build(1, wanted, left_out).await;
    scenario.start();
    scenario.owe(10).await;
    scenario.end().await.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_question_taken_for_permission_to_send_again_is_caught() {
    assert!(failed_questions(None).await.is_clean());
    let audit = failed_questions(Some(Guard::FailedQuestionPermitsNothing)).await;
    assert!(audit.doubled > 0, "{audit:#?}");
}

/// A rail whose first answer to a question is about somebody else's payment, which was refused.
async fn strangers_replies(left_out: Option<Guard>) -> Audit {
    let script = "otherwise: ask stranger PAYEE_NOT_FOUND, accept";
    let mut scenario = Scenario::build(1, Wanted::new(Name::Mtn, script), left_out).await;
    scenario.start();
    scenario.owe(10).await;
    scenario.end().await.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_about_somebody_else_that_counts_is_caught() {
    let audit = strangers_replies(None).await;
    assert!(audit.is_clean() && audit.dispatched == 10, "{audit:#?}");
    let audit = strangers_replies(Some(Guard::RepliesAreBound)).await;
    assert_eq!(audit.disagreed, 10, "{audit:#?}");
}

/// A rail that pays, and an adapter that reads every reply as a refusal.
async fn an_adapter_that_lies(left_out: Option<Guard>) -> Audit {
    let mut scenario =
        Scenario::build(1, Wanted::new(Name::Mtn, "otherwise: ask slow 1, accept"), left_out).await;
    let liar = guest("says_refused");
    scenario.world.change_rail(0, |file| {
        let path = std::env::temp_dir().join(format!("{}.wasm", Digest::of(&liar)));
        std::fs::write(&path, &liar).expect("written");
        file.insert("component".to_owned(), path.display().to_string().into());
        file.insert("sha256".to_owned(), Digest::of(&liar).to_string().into());
    });
    scenario.start();
    scenario.owe(10).await;
    scenario.end().await.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_that_votes_instead_of_braking_is_caught() {
    let audit = an_adapter_that_lies(None).await;
    assert!(audit.is_clean() && audit.unresolved == 10, "{audit:#?}");
    let audit = an_adapter_that_lies(Some(Guard::AdapterOnlyBrakes)).await;
    assert_eq!(audit.disagreed, 10, "{audit:#?}");
}

/// A rail that takes payments, loses its replies and cannot find them for a long time; and a file that refuses them by then.
async fn refused_by_ourselves(left_out: Option<Guard>) -> Audit {
    let wanted = Wanted::new(Name::Mtn, "otherwise: pay close-after; then missing, after 3600s settled");
    let mut scenario = Scenario::build(1, wanted, left_out).await;
    // Not found permits nothing, until the file says otherwise.
    scenario.world.change_rail(0, |file| set(file, "pace", "visibility_seconds", 600));
    scenario.start();
    scenario.owe(10).await;
    scenario.world.until("payment_outbox_attempts where error_code = 'NOT_FOUND'", |rows| rows >= 10).await;
    scenario.world.hosts[0].kill();
    scenario.world.change_rail(0, |file| {
        set(file, "pace", "visibility_seconds", 0);
        set(file, "amount", "max", "ZMW = \"1.00\"".parse::<Table>().expect("TOML"));
    });
    scenario.world.move_clock(LEASE_SECONDS).await;
    scenario.start();
    scenario.end().await.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_of_our_own_after_bytes_left_that_counts_is_caught() {
    let audit = refused_by_ourselves(None).await;
    assert!(audit.is_clean() && audit.unresolved == 10, "{audit:#?}");
    let audit = refused_by_ourselves(Some(Guard::RefusalsOfOursAreWeighed)).await;
    assert_eq!(audit.disagreed, 10, "{audit:#?}");
}

/// A rail that cannot be asked; the database is away just when its answers have to be written.
async fn unwritten_outcomes(left_out: Option<Guard>) -> Audit {
    let script = format!("otherwise: pay {SLOW}");
    let wanted = Wanted { forgetful: true, can_query: false, ..Wanted::new(Name::Bank, &script) };
    let mut scenario = Scenario::patient(1, wanted, left_out).await;
    scenario.start();
    scenario.owe(20).await;
    scenario.world.until("payment_outbox_pending where handed_over_at is not null", |rows| rows == 20).await;
    scenario.world.hosts[0].wire.set(Mode::Refusing);
    scenario.faults += 1;
    scenario.world.until_metric(0, "outcome_writes_failed_total", |failed| failed > 0.0).await;
    scenario.world.hosts[0].wire.set(Mode::Through);
    if scenario.left_out.is_some() {
        scenario.world.move_clock(LEASE_SECONDS).await;
    }
    scenario.end().await.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_that_is_not_written_is_caught() {
    let audit = unwritten_outcomes(None).await;
    assert_eq!((audit.dispatched, audit.unresolved), (20, 0), "{audit:#?}");
    let audit = unwritten_outcomes(Some(Guard::OutcomeIsWritten)).await;
    assert!(audit.unresolved > 0, "the rail said yes, and the books do not know: {audit:#?}");
}

/// The same rail; the database refuses outcomes for a reason that does not pass by itself.
async fn refused_outcomes(left_out: Option<Guard>) -> Audit {
    let script = format!("otherwise: pay {SLOW}");
    let wanted = Wanted { forgetful: true, can_query: false, ..Wanted::new(Name::Bank, &script) };
    let mut scenario = Scenario::patient(1, wanted, left_out).await;
    scenario.start();
    scenario.owe(20).await;
    scenario.world.until("payment_outbox_pending where handed_over_at is not null", |rows| rows == 20).await;
    let complete = "execute on function symphony.complete_outbox_batch(text, uuid[], uuid[], text[], text[], text[], text[], text[], int[], double precision[], text[], boolean[], bytea[], bytea[], bytea[], bytea[], text[], jsonb[], text[])";
    let mut owner = scenario.world.db.connect(DbUser::Superuser).await;
    run(&mut owner, &format!("revoke {complete} from symphony_executor")).await;
    scenario.faults += 1;
    scenario.world.until_metric(0, "outcome_writes_failed_total", |failed| failed > 0.0).await;
    run(&mut owner, &format!("grant {complete} to symphony_executor")).await;
    if scenario.left_out.is_some() {
        scenario.world.move_clock(LEASE_SECONDS).await;
    }
    scenario.end().await.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_is_free_before_its_outcome_is_durable_is_caught() {
    let audit = refused_outcomes(None).await;
    assert_eq!((audit.dispatched, audit.unresolved), (20, 0), "{audit:#?}");
    let audit = refused_outcomes(Some(Guard::CallSlotWaitsForItsOutcome)).await;
    assert!(audit.unresolved > 0, "the rail said yes, and the books do not know: {audit:#?}");
}

/// The fence of a completion: the token, its holder and its end.
const FENCE: &str = " and p.lease_token = w.token and p.claimed_by = p_worker_id
       and p.lease_expires_at > v_now";

async fn take_the_fence_away(world: &World) {
    let mut owner = world.db.connect(DbUser::Superuser).await;
    let function: String = sqlx::query_scalar(
        "select pg_get_functiondef(p.oid) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
          where n.nspname = 'symphony' and p.proname = 'complete_outbox_batch'",
    )
    .fetch_one(&mut owner)
    .await
    .expect("the function");
    assert_eq!(function.matches(FENCE).count(), 2, "the fence stands where it stood");
    sqlx::query(AssertSqlSafe(function.replace(FENCE, ""))).execute(&mut owner).await.expect("replaced");
    accept_functions(&mut owner).await;
}

/// A host stands still while the rail answers; another one takes over.
async fn late_writers(fenced: bool) -> (Audit, World) {
    let script = format!("otherwise: pay {SLOW}; ask {SLOW}");
    let mut scenario = Scenario::patient(2, Wanted::new(Name::Mtn, &script), None).await;
    if !fenced {
        take_the_fence_away(&scenario.world).await;
    }
    let all_places = format!("{:?}", Guard::BeginsWithOne);
    scenario.world.hosts[0].start(&[(LEFT_OUT, &all_places)]);
    scenario.owe(20).await;
    scenario.world.until("payment_outbox_pending where claimed_by is not null", |rows| rows == 20).await;
    // The requests are under way.
    let rail = &scenario.world.rails[0].simulator;
    let patience = Instant::now();
    while rail.counts().requests < 20 {
        assert!(patience.elapsed() < PATIENCE, "they do not arrive");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    scenario.world.hosts[0].freeze();
    scenario.faults += 1;
    scenario.world.move_clock(LEASE_SECONDS).await;
    scenario.world.hosts[1].start(&[(LEFT_OUT, &all_places)]);
    scenario.world.until("payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'", |rows| rows == 20).await;
    // The other one has only just asked: the first writes before it can.
    scenario.world.hosts[1].freeze();
    scenario.world.hosts[0].thaw();
    let written = match fenced {
        true => "payment_outbox_late_answers",
        false => "payment_outbox_attempts where state = 'DISPATCHED'",
    };
    scenario.world.until(written, |rows| rows > 0).await;
    scenario.world.hosts[1].thaw();
    scenario.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_without_a_fence_is_caught() {
    let (audit, world) = late_writers(true).await;
    assert!(audit.is_clean(), "{audit:#?}");
    assert!(world.count("payment_outbox_late_answers").await > 0, "nobody wrote late");
    let (audit, _) = late_writers(false).await;
    assert!(audit.stale_accepted > 0, "{audit:#?}");
}
