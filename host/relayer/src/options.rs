//! How a host works.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use payment::Instruction;
use rail::{Attempt, Task};
use tokio::sync::mpsc;
use uuid::Uuid;

/// How a host works.
#[derive(Debug, Clone)]
pub struct Options {
    /// Unique per start of a process: it is part of the fence.
    pub worker_id: String,
    pub connections: u32,
    /// Looks at the queue this often though no bell rang.
    pub poll: Duration,
    /// Hears the doorbell.
    pub listen: bool,
    /// What is in flight may take this long when the host is told to stop.
    pub drain: Duration,
    /// Months of the history that are made before they are needed.
    pub months_ahead: i32,
    /// Somebody wants to see the span of each payment.
    pub spans: bool,
    /// Somebody keeps every exchange; their rails are loaded to be recorded.
    pub recorder: Option<mpsc::UnboundedSender<Exchanged>>,
}

/// A call as it was.
#[derive(Debug)]
pub struct Exchanged {
    pub rail: String,
    pub task: Task,
    pub payment: Arc<Instruction>,
    /// What was captured before it.
    pub captured: BTreeMap<String, String>,
    pub attempt: Attempt,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            worker_id: format!("railhost-{}", Uuid::new_v4().simple()),
            connections: 8,
            poll: Duration::from_millis(1000),
            listen: true,
            drain: Duration::from_secs(40),
            months_ahead: 3,
            spans: false,
            recorder: None,
        }
    }
}
