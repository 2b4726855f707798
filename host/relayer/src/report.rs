//! Writes down how attempts ended, many at a time. A call slot is free when its outcome is durable, not before.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use tracing::{Instrument, Span};

use crate::attempt::End;
use crate::host::{Host, LeaseGuard};
use crate::lane::CallSlot;
use crate::persist::{WriteRefusal, persist};
use crate::queue_view::GATHER;
use crate::unused::Unused;
use faults::{self, CrashPoint, Guard, crash_point};
use outbox::Error;
use outbox::complete::Completion;
use outbox::lease::{Hold, LeaseRef};
use verdict::error_code::ErrorCode;

/// In one statement.
const BATCH_MAX: usize = 500;
/// Statements at a time.
pub(crate) const WRITES_MAX: u32 = 4;
/// A batch waits no longer than this for the one before it. A single write that is stuck must not hold up all the others.
const WAIT_MAX: Duration = Duration::from_millis(50);

pub(crate) struct FinishedAttempt {
    pub rail: String,
    /// When its claim was sent.
    pub sent: Instant,
    pub lease: LeaseRef,
    pub end: End,
    /// Of the payment, from its claim until what came of it is written.
    pub span: Span,
    pub slot: CallSlot,
    pub guard: LeaseGuard,
}

/// What a written outcome is measured by.
struct CompletionTiming {
    rail: String,
    sent: Instant,
    span: Span,
}

/// A lease that goes back, and why.
struct Returned {
    rail: String,
    lease: LeaseRef,
    reason: Unused,
}

/// Runs until the last attempt has ended and is written. While one batch is on its way the next one gathers. A batch that is full
/// or has waited does not wait longer.
pub(crate) async fn run(host: Arc<Host>, mut endings: UnboundedReceiver<FinishedAttempt>) {
    let (mut batch, mut writing) = (Vec::new(), JoinSet::new());
    let (mut open, mut gathers_since) = (true, Instant::now());
    while open || !batch.is_empty() || !writing.is_empty() {
        let space = BATCH_MAX - batch.len();
        let was_empty = batch.is_empty();
        let due = gathers_since + patience(&host, batch.len(), writing.is_empty());
        tokio::select! {
            more = endings.recv_many(&mut batch, space), if open && space > 0 => open = more > 0,
            Some(written) = writing.join_next() => {
                if let Err(error) = written {
                    tracing::error!(%error, "outcomes were not written; other hosts will query the rail: {error}");
                }
            }
            () = sleep_until(due.into()), if !was_empty && writing.len() < WRITES_MAX as usize => {}
        }
        if was_empty {
            gathers_since = Instant::now();
        }
        let has_waited = gathers_since.elapsed() >= patience(&host, batch.len(), writing.is_empty());
        let may_write = (has_waited || batch.len() == BATCH_MAX) && writing.len() < WRITES_MAX as usize;
        if may_write && !batch.is_empty() {
            writing.spawn(write(host.clone(), mem::take(&mut batch)));
        }
    }
}

/// For how long a batch gathers: behind another one, and where slots are short, while others will soon be ready.
fn patience(host: &Host, gathered: usize, nothing_is_written: bool) -> Duration {
    match nothing_is_written {
        false => WAIT_MAX,
        true if gathered * 4 < host.trusted_leases().len() && host.is_crowded() => GATHER,
        true => Duration::ZERO,
    }
}

async fn write(host: Arc<Host>, batch: Vec<FinishedAttempt>) {
    if host.is_stopping() {
        crash_point(CrashPoint::Draining);
    }
    let (mut completions, mut timings, mut holds, mut unused, mut slots) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for FinishedAttempt { rail, sent, lease, end, span, slot, guard } in batch {
        match end {
            End::Outcome(outcome) => {
                completions.push(Completion { lease, outcome: *outcome });
                timings.push(CompletionTiming { rail, sent, span });
            }
            End::Held(hold) => holds.push(*hold),
            End::Unused(reason) => unused.push(Returned { rail, lease, reason }),
        }
        slots.push((slot, guard));
    }
    keep_captured(&host, &completions).await;
    complete(&host, &completions, &timings).await;
    hold(&host, &holds).await;
    release(&host, &unused).await;
    drop(slots);
}

/// Captured values, which later requests need, are saved before the outcome.
async fn keep_captured(host: &Host, completions: &[Completion]) {
    let captured: Vec<_> = completions
        .iter()
        .filter_map(|completion| Some((completion.lease, completion.outcome.captured.clone()?)))
        .collect();
    if captured.is_empty() {
        return;
    }
    let write =
        persist(host, "captured values", WriteRefusal::Final, || host.writer.keep_captured(&captured, true));
    if let Err(error) = write.await {
        tracing::error!(%error, "what was read of {} payments for later requests was not kept: {error}", captured.len());
    }
}

/// The database recognises a token that has completed, so this may be repeated until an answer comes.
async fn complete(host: &Host, completions: &[Completion], timings: &[CompletionTiming]) {
    if completions.is_empty() {
        return;
    }
    let write = persist(host, "outcomes", WriteRefusal::Never, || host.writer.complete_batch(completions));
    let answers = match faults::sending(CrashPoint::CompletionSent, write).await {
        Ok(answers) => answers,
        Err(error) => {
            host.given_up.fetch_add(completions.len(), Ordering::AcqRel);
            tracing::error!(%error, "{} outcomes were not written and are kept as late: {error}", completions.len());
            if faults::is_left_out(Guard::OutcomeIsWritten)
                || faults::is_left_out(Guard::CallSlotWaitsForItsOutcome)
            {
                return;
            }
            for (completion, timing) in completions.iter().zip(timings) {
                host.abandon(completion.lease);
                keep_late_answer(host, completion).instrument(timing.span.clone()).await;
            }
            return;
        }
    };
    crash_point(CrashPoint::CompletionCommitted);
    for ((completion, timing), answer) in completions.iter().zip(timings).zip(answers) {
        let payment = completion.lease.outbox_id;
        if answer.is_err() {
            host.abandon(completion.lease);
        }
        match answer {
            Ok(done) => {
                timing.span.record("state", &done.state);
                timing.span.record("error_code", completion.outcome.error_code.map(ErrorCode::as_str));
                let pending = completion.outcome.error_code == Some(ErrorCode::RailPending);
                let took = timing.sent.elapsed();
                host.metrics.writes.written(&timing.rail, &done.state, pending, done.attempt_no, took);
                tracing::debug!(%payment, state = done.state, "{payment}: attempt {} {}", done.attempt_no, done.state);
            }
            Err(Error::LeaseLost(_)) => {
                host.metrics.writes.lease_lost.inc();
                tracing::info!(%payment, "{payment}: the lease was lost, its answer is kept as late");
                keep_late_answer(host, completion).instrument(timing.span.clone()).await;
            }
            Err(error) => {
                if matches!(error, Error::TerminalGuard(_)) {
                    host.metrics.writes.terminal_guard_hits.inc();
                }
                tracing::error!(%payment, %error, "{payment}: its outcome was refused and is kept as late: {error}");
                keep_late_answer(host, completion).instrument(timing.span.clone()).await;
            }
        }
    }
}

/// What the rail said is evidence, whatever becomes of the row. It changes no state now: the next claim brings it
/// (`known_past.sql`), and `History::settled_late` says whether it settles the payment.
async fn keep_late_answer(host: &Host, completion: &Completion) {
    let payment = completion.lease.outbox_id;
    let write =
        persist(host, "a late answer", WriteRefusal::Final, || host.writer.record_late_answer(completion));
    match faults::sending(CrashPoint::LateAnswerSent, write).await {
        Ok(_) => host.metrics.writes.late_answers.inc(),
        Err(error) => tracing::error!(%payment, %error, "{payment}: a late answer was not kept: {error}"),
    }
}

/// Payments that met a rail which cannot pay now wait for it. A hold says nothing of this payment's money: one whose lease was lost
/// is not kept, and the next holder asks again.
async fn hold(host: &Host, holds: &[Hold]) {
    if holds.is_empty() {
        return;
    }
    let write = persist(host, "holds", WriteRefusal::Final, || host.writer.hold(holds));
    match faults::sending(CrashPoint::ReleaseSent, write).await {
        Ok(back) => {
            host.metrics.writes.held.inc_by(back.len() as u64);
            let lost = holds.iter().filter(|hold| !back.contains(&hold.lease.outbox_id));
            lost.for_each(|hold| host.abandon(hold.lease));
        }
        Err(error) => {
            host.given_up.fetch_add(holds.len(), Ordering::AcqRel);
            holds.iter().for_each(|hold| host.abandon(hold.lease));
            tracing::info!(%error, "{} leases that go back are left to expire: {error}", holds.len());
        }
    }
}

/// Rows that did not reach a rail go back at once. Where that fails they come back when their lease ends.
async fn release(host: &Host, unused: &[Returned]) {
    if unused.is_empty() {
        return;
    }
    for Returned { rail, lease, reason } in unused {
        let (payment, reason) = (lease.outbox_id, reason.as_str());
        host.metrics.writes.returned(rail, reason);
        tracing::debug!(%payment, rail, reason, "{payment}: its lease goes back unused: {reason}");
    }
    let leases: Vec<_> = unused.iter().map(|returned| returned.lease).collect();
    let write = persist(host, "unused leases", WriteRefusal::Final, || host.writer.release(&leases));
    match faults::sending(CrashPoint::ReleaseSent, write).await {
        Ok(released) => host.metrics.writes.unused.inc_by(released.len() as u64),
        Err(error) => {
            host.given_up.fetch_add(unused.len(), Ordering::AcqRel);
            tracing::info!(%error, "{} unused leases are left to expire: {error}", unused.len());
        }
    }
}
