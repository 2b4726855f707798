//! Why a host ended before it was told to.

use thiserror::Error as ThisError;
use tokio::task::JoinError;

/// Why a host ended before it was told to.
#[derive(Debug, ThisError)]
pub enum RunError {
    #[error(transparent)]
    Database(#[from] outbox::Error),
    /// A task without which no host may go on. It never ends by itself: there is a bug in it.
    #[error("{task} of this host ended, {}", how(.ended))]
    TaskEnded { task: &'static str, ended: Result<(), JoinError> },
}

fn how(ended: &Result<(), JoinError>) -> String {
    ended.as_ref().map_or_else(ToString::to_string, |()| "without a reason".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dead_task_is_told_by_its_name_and_its_panic() {
        let ended = tokio::spawn(async { panic!("out of luck") }).await;
        let said = RunError::TaskEnded { task: "the reporter", ended }.to_string();
        assert!(said.starts_with("the reporter of this host ended, task"), "{said}");
        assert!(said.contains("panicked with message \"out of luck\""), "{said}");
    }
}
