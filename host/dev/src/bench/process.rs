//! What processes use, as `/proc` shows it. Where there is none it is 0.

use std::fs;

/// The kernel's unit in `/proc`, on every machine of today.
const US_PER_TICK: f64 = 10_000.0;

struct Process {
    pid: u32,
    parent: u32,
    /// On the processor so far.
    own_ticks: u64,
    /// That of its children which it has waited for.
    waited_ticks: u64,
}

/// Time on the processor so far of a process and of all below it. One that has ended counts until its parent has waited for it,
/// and from then on as its parent's.
pub(super) fn cpu_us(root: u32) -> f64 {
    let ticks: u64 = tree(root).iter().map(|process| process.own_ticks + process.waited_ticks).sum();
    ticks as f64 * US_PER_TICK
}

/// Of this process by itself.
pub(super) fn own_cpu_us() -> f64 {
    stat(std::process::id()).map_or(0.0, |process| process.own_ticks as f64 * US_PER_TICK)
}

/// Memory that a process and all below it have in use.
pub(super) fn resident_kib(root: u32) -> f64 {
    tree(root).iter().filter_map(|process| resident_of(process.pid)).sum()
}

fn resident_of(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn tree(root: u32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let (mut found, mut others): (Vec<Process>, Vec<Process>) =
        pids.filter_map(stat).partition(|process| process.pid == root);
    let mut seen = 0;
    while seen < found.len() {
        let parent = found[seen].pid;
        let (children, rest) = others.into_iter().partition(|process| process.parent == parent);
        others = rest;
        found.extend::<Vec<_>>(children);
        seen += 1;
    }
    found
}

fn stat(pid: u32) -> Option<Process> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(pid: u32, text: &str) -> Option<Process> {
    // The name may hold spaces and brackets of its own, so its end is the last one.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        own_ticks: ticks(11)? + ticks(12)?,
        waited_ticks: ticks(13)? + ticks(14)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_behind_a_name_of_any_kind() {
        let text = "42 (a) b) S 7 42 42 0 -1 4194560 100 0 0 0 31 11 5 2 20 0 4 0 100 1000 10";
        let process = parse(42, text).expect("it is sound");
        assert_eq!((process.parent, process.own_ticks, process.waited_ticks), (7, 42, 7));
    }

    #[test]
    fn this_process_uses_something() {
        if fs::exists("/proc/self/stat").unwrap_or(false) {
            assert!(resident_kib(std::process::id()) > 0.0);
        }
    }
}
