//! Which columns each kind of scenario has.

use super::figures::{FigureShape, column};

/// The figure of enqueuing and processing at the same time.
pub(super) const AT_ONCE_PER_S: &str = "at_once_per_s";

/// Costs are per payment.
pub(super) const BURN_DOWN: FigureShape = FigureShape {
    columns: &[
        column("process_per_s", "process /s"),
        column("enqueue_per_s", "enqueue /s"),
        column("lifecycle_per_s", "lifecycle /s"),
    ],
    costs: &[
        column("enqueue_wal_bytes", "WAL of enqueue, B"),
        column("process_wal_bytes", "WAL of process, B"),
        column("commits", "commits"),
        column("worker_cpu_us", "CPU outside PostgreSQL, µs"),
        column("postgres_cpu_us", "CPU in PostgreSQL, µs"),
        column("rows_updated", "rows updated"),
        column("rows_updated_in_place", "of them HOT"),
        column("rows_deleted", "rows deleted"),
        column("rows_dead", "dead rows left"),
        column("database_bytes", "database grows by, B"),
    ],
    plotted: column("process_per_s", "payments processed per second"),
    relative: false,
};

pub(super) const AT_ONCE: FigureShape = FigureShape {
    columns: &[column(AT_ONCE_PER_S, "enqueue and process /s")],
    costs: &[],
    plotted: column(AT_ONCE_PER_S, "payments enqueued and processed per second"),
    relative: false,
};

pub(super) const BACKLOG: FigureShape = FigureShape {
    columns: &[column("process_per_s", "process /s")],
    costs: &[],
    plotted: column("process_per_s", "payments processed per second"),
    relative: true,
};

pub(super) const STEADY: FigureShape = FigureShape {
    columns: &[
        column("offered_per_s", "offered /s"),
        column("call_p50_ms", "commit to call, p50 ms"),
        column("call_p95_ms", "p95 ms"),
        column("call_p99_ms", "p99 ms"),
        column("call_max_ms", "max ms"),
        column("verdict_p50_ms", "commit to durable verdict, p50 ms"),
        column("verdict_p99_ms", "p99 ms"),
    ],
    costs: &[],
    plotted: column("call_p99_ms", "ms from commit to the call at the rail, p99 (less is better)"),
    relative: false,
};

pub(super) const SLOW_RAIL: FigureShape = FigureShape {
    columns: &[
        column("call_kib", "KiB per call in flight"),
        column("call_cpu_ms", "CPU ms per call"),
        column("idle_mib", "idle, MiB"),
        column("peak_mib", "all calls open, MiB"),
    ],
    costs: &[],
    plotted: column("call_kib", "KiB of memory per call in flight (less is better)"),
    relative: false,
};

pub(super) const DEAD_RAIL: FigureShape = FigureShape {
    columns: &[column("healthy_per_s", "verdicts of the other three /s")],
    costs: &[],
    plotted: column("healthy_per_s", "verdicts per second of the three other rails"),
    relative: true,
};

pub(super) const HOSTS: FigureShape = FigureShape {
    columns: &[column("verdicts_per_s", "verdicts /s")],
    costs: &[],
    plotted: column("verdicts_per_s", "verdicts per second"),
    relative: true,
};

pub(super) const HOT_PARTICIPANT: FigureShape = FigureShape {
    columns: &[column("wait_p50_ms", "commit to claim, p50 ms"), column("wait_p99_ms", "p99 ms")],
    costs: &[],
    plotted: column("wait_p99_ms", "ms from commit to claim of the thousand others, p99 (less is better)"),
    relative: true,
};
