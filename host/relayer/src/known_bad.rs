//! What a host without a guard would do: tests leave guards out to see that they are missed.

use faults::{Guard, is_left_out};
use verdict::decision::{Class, Decision};
use verdict::error_code::ErrorCode;
use verdict::outcome::Outcome;

/// What a host would take the decision for.
pub(crate) fn judged(decision: Decision) -> Decision {
    match decision.class {
        Class::Unknown if is_left_out(Guard::SilenceIsUnknown) => {
            Decision { class: Class::Terminal, error_code: Some(ErrorCode::RailDeclined), ..decision }
        }
        _ => decision,
    }
}

/// What a host would write.
pub(crate) fn scheduled(mut outcome: Outcome) -> Outcome {
    let failed = outcome.error_code.as_deref() == Some(ErrorCode::QueryFailed.as_str());
    if failed && is_left_out(Guard::FailedQuestionPermitsNothing) {
        outcome.unsettled = Some(false);
    }
    outcome
}
