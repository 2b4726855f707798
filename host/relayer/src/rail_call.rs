//! One payment at its rail: what is checked before the call, the call, and the decision that comes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use serde_json::json;

use crate::host::Host;
use crate::known_bad;
use crate::lane::Lane;
use crate::options::Exchanged;
use crate::persist::{WriteRefusal, persist};
use crate::rail_signals::{heed_denials, sign, tell_of_breaker};
use crate::unused::Unused;
use faults::{CrashPoint, crash_point};
use outbox::lease::Lease;
use payment::Instruction;
use rail::{self, CaptureStore, Captures, Loaded, Task};
use verdict::answer::CallResult;
use verdict::call_error::CallError;
use verdict::decision::Decision;

/// A payment that may have left waits this long on a rail that is closed.
const OUT_OF_HOURS_SECONDS: u32 = 60;

/// What came of it. The report is there where the rail, or at least its adapter, was called.
pub(crate) struct Judged {
    pub decision: Decision,
    pub report: Option<rail::CallReport>,
}

impl Judged {
    fn not_sent(why: &str) -> Self {
        Self { decision: Decision::not_sent(why), report: None }
    }
}

/// One payment on its way to one rail. An error means that the rail was not called: the lease goes back.
pub(crate) struct RailCall<'c> {
    pub host: &'c Arc<Host>,
    pub lane: &'c Lane,
    pub loaded: &'c Loaded,
    pub lease: &'c Lease,
    pub captured: &'c BTreeMap<String, String>,
}

impl CaptureStore for RailCall<'_> {
    fn keep<'k>(&'k self, values: &'k BTreeMap<String, String>) -> BoxFuture<'k, bool> {
        Box::pin(async move {
            let captured = [(self.lease.lease_ref(), json!(values))];
            let write = || self.host.writer.keep_captured(&captured, false);
            match persist(self.host, "captured values", WriteRefusal::Final, write).await {
                Ok(kept) => kept.contains(&self.lease.outbox_id),
                Err(error) => {
                    tracing::error!(payment = %self.lease.outbox_id, %error, "what was read for its next request was not kept: {error}");
                    false
                }
            }
        })
    }
}

impl RailCall<'_> {
    pub(crate) async fn ask(&self, instruction: &Arc<Instruction>) -> Result<Judged, Unused> {
        let Self { host, lane, loaded, lease, .. } = self;
        shape(host, lane, loaded).await;
        let trusted_until = may_start(host, loaded, lease)?;
        let report = self.exchange(Task::Query, instruction, trusted_until).await?;
        let decision = verdict::judge_query(&report.heard, &report.witness).without(&instruction.destination);
        if sign(&decision, instruction)
            .is_some_and(|sign| lane.breaker.heard(sign, &loaded.pace.breaker, Instant::now()))
        {
            tell_of_breaker(lane, &decision);
        }
        Ok(Judged { decision, report: Some(report) })
    }

    pub(crate) async fn send(
        &self,
        instruction: &Arc<Instruction>,
        claim_sent: Instant,
    ) -> Result<Judged, Unused> {
        let Self { host, lane, loaded, lease, .. } = self;
        if let Some(hold) = self.cannot_pay_now(instruction)? {
            return Ok(hold);
        }
        shape(host, lane, loaded).await;
        let mut trusted_until = may_start(host, loaded, lease)?;
        // The rail may have closed while this payment waited for its turn.
        if !lane.is_in_hours() {
            return Err(Unused::OutOfHoursMeanwhile);
        }
        let ticket = lane.breaker.admit(Instant::now()).ok_or(Unused::BreakerOpen)?;
        // After the breaker, which lets payments through again when a pause is known here.
        if lane.rail.is_revoked() {
            return Err(Unused::Revoked);
        }
        if let Some(reason) = host.paused_or_suspended(lease, claim_sent) {
            return Err(reason);
        }
        crash_point(CrashPoint::Admitted);
        if loaded.hand_over_marks {
            if !host.marker.mark(lease.lease_ref()).await {
                return Err(Unused::NotMarked);
            }
            // A marked row cannot be handed back: its mark goes with what is written.
            match may_start(host, loaded, lease) {
                Ok(until) => trusted_until = until,
                Err(_) => return Ok(Judged::not_sent("too late to begin")),
            }
        }
        let report = match self.exchange(Task::Disburse, instruction, trusted_until).await {
            Ok(report) => report,
            Err(_) if loaded.hand_over_marks => return Ok(Judged::not_sent("no place for the call")),
            Err(reason) => return Err(reason),
        };
        let decision =
            verdict::judge_disbursement(&report.heard, &report.witness).without(&instruction.destination);
        let decision = known_bad::judged(decision);
        if sign(&decision, instruction)
            .is_some_and(|sign| ticket.saw(sign, &loaded.pace.breaker, Instant::now()))
        {
            tell_of_breaker(lane, &decision);
        }
        Ok(Judged { decision, report: Some(report) })
    }

    /// The rail is closed, or too little is left to pay from. The lease goes back where no claim takes it again before that changes.
    fn cannot_pay_now(&self, instruction: &Instruction) -> Result<Option<Judged>, Unused> {
        let currency = instruction.money.currency();
        let (reason, why, wait_seconds) = if self.lane.is_float_low_of(currency) {
            let every = self.loaded.form.float.get(currency).map_or(60, |float| float.every_seconds);
            (Unused::FloatLow, format!("what is left in {currency} is below its floor"), every)
        } else if !self.lane.is_in_hours() {
            (Unused::OutOfHours, "the rail is closed".to_owned(), OUT_OF_HOURS_SECONDS)
        } else {
            return Ok(None);
        };
        let is_leased_again = self.lease.unsettled || self.lane.is_in_hours() && !self.lane.is_float_low();
        match is_leased_again {
            true => Ok(Some(Judged { decision: Decision::on_hold(&why, wait_seconds), report: None })),
            false => Err(reason),
        }
    }

    async fn exchange(
        &self,
        task: Task,
        instruction: &Arc<Instruction>,
        trusted_until: Instant,
    ) -> Result<rail::CallReport, Unused> {
        let Self { host, lane, loaded, .. } = self;
        let captures = Captures { known: self.captured, keeper: self };
        let report =
            loaded.call_with(&host.sandbox, task, instruction.clone(), Some(trusted_until), captures).await;
        crash_point(CrashPoint::AdapterReturned);
        let failed = match &report.heard {
            CallResult::Failed(error) => Some(error),
            _ => None,
        };
        if matches!(failed, Some(CallError::Busy(_))) {
            return Err(Unused::NoSandboxSlot);
        }
        host.metrics.calls.called(&lane.rail.name, report.took, failed);
        self.record(task, instruction, &report);
        heed_denials(host, lane, &report, instruction);
        if let CallResult::Reading(reading) = &report.heard
            && reading.veto.is_some()
        {
            host.metrics.calls.vetoed(&lane.rail.name);
        }
        for line in &report.log {
            let said = instruction.destination.masked_in(line);
            tracing::debug!(digest = %report.digest, "{}: adapter says: {said}", lane.rail.name);
        }
        Ok(report)
    }

    fn record(&self, task: Task, instruction: &Arc<Instruction>, report: &rail::CallReport) {
        let Some(recorder) = &self.host.options.recorder else { return };
        let exchanged = Exchanged {
            rail: self.lane.rail.name.clone(),
            task,
            payment: instruction.clone(),
            captured: self.captured.clone(),
            report: report.clone(),
        };
        // The recorder may be gone. The payment goes on.
        recorder.send(exchanged).ok();
    }
}

async fn shape(host: &Host, lane: &Lane, loaded: &Loaded) {
    if lane.shape(loaded).await {
        host.metrics.calls.rate_limited(&lane.rail.name);
    }
}

/// Until when the lease is trusted, if a call that starts now would end by then.
fn may_start(host: &Host, loaded: &Loaded, lease: &Lease) -> Result<Instant, Unused> {
    let known = host.trusted_leases().get(&lease.outbox_id).copied();
    // The row may be leased again by now, under another token.
    let ours = known.filter(|known| known.lease == lease.lease_ref()).ok_or(Unused::LeaseLost)?;
    if host.is_stopping() {
        return Err(Unused::Stopping);
    }
    match Instant::now() + loaded.timeouts.call() <= ours.trusted_until {
        true => Ok(ours.trusted_until),
        false => Err(Unused::TooLate),
    }
}
