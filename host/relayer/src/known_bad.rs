//! What a host without a guard would do. Tests leave guards out to see that something notices it.

use faults::{Guard, is_left_out};
use verdict::decision::{Class, Decision};
use verdict::error_code::ErrorCode;
use verdict::outcome::Outcome;

/// How such a host would judge.
pub(crate) fn judged(decision: Decision) -> Decision {
    match decision.class {
        Class::Unknown if is_left_out(Guard::SilenceIsUnknown) => {
            Decision { class: Class::Terminal, error_code: Some(ErrorCode::RailDeclined), ..decision }
        }
        _ => decision,
    }
}

/// What such a host would write.
pub(crate) fn scheduled(mut outcome: Outcome) -> Outcome {
    let failed = outcome.error_code == Some(ErrorCode::QueryFailed);
    if failed && is_left_out(Guard::FailedQuestionPermitsNothing) {
        outcome.unsettled = Some(false);
    }
    outcome
}
