//! How a host works.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use payment::Instruction;
use rail::{CallReport, Task};
use tokio::sync::mpsc;
use uuid::Uuid;

/// How a host works.
#[derive(Debug, Clone)]
pub struct RelayerOptions {
    /// Unique per start of a process: it is part of the fence.
    pub worker_id: String,
    pub connections: u32,
    /// It looks at the queue this often, also without a notification.
    pub poll: Duration,
    /// It listens for notifications.
    pub listen: bool,
    /// Attempts may still take this long when the host is told to stop.
    pub drain: Duration,
    /// Months of the history that are made before they are needed.
    pub months_ahead: i32,
    /// Somebody wants to see the span of each payment.
    pub spans: bool,
    /// Somebody keeps every exchange. Then the rails are loaded to be recorded.
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
    pub report: CallReport,
}

impl Default for RelayerOptions {
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
