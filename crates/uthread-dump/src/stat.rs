//! What the kernel says of a process in `/proc/PID/stat`.

use std::fs;

/// Number of ticks per second in which the kernel tells times, on x86-64.
const TICKS_PER_SECOND: f64 = 100.0;

/// The place of a field among those after the name, which may contain anything.
const STATE: usize = 0;
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;
const START_TIME: usize = 19;

/// A process at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    /// When it has started. With its id, this tells it from all others.
    pub(crate) started: u64,
    /// The CPU time that it has used, in seconds.
    pub(crate) cpu_seconds: f64,
}

/// Returns `None` if there is no such process, or if it has ended and its parent does not know yet.
pub(crate) fn read(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    if matches!(*fields.get(STATE)?, "Z" | "X") {
        return None;
    }
    let ticks = number(USER_TIME)? + number(SYSTEM_TIME)?;
    Some(Stat {
        started: number(START_TIME)?,
        cpu_seconds: ticks as f64 / TICKS_PER_SECOND,
    })
}
