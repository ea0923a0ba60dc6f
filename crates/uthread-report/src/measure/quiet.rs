//! A measurement window: it opens when the machine is quiet and reports on closing which share of
//! the CPUs others used.
//!
//! "Others" is the machine's busy time without the server, this program and the load it started. A
//! disturbed window says something about the machine and not about the server, so the measurement
//! is repeated.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::proc::{self, Cpu, Machine};

/// Share of one CPU above which others are no longer noise: on 2 CPUs it would move a median by
/// several per cent.
pub const OTHERS_SHARE_MAX: f64 = 0.10;
/// Time for which the machine has to be quiet, long enough that a tick of 10 ms is 2 % of it.
pub const QUIET_FOR: Duration = Duration::from_millis(500);
/// Time after an undisturbed window or wait for which the machine counts as quiet. A study opens
/// thousands of windows, and each is checked again when it closes.
const QUIET_AFTER: Duration = Duration::from_secs(2);
/// A machine that has not been quiet for a minute will not be soon; measure and flag rather than
/// hang.
pub const QUIET_WAIT_SECONDS_MAX: u64 = 60;

/// CPU use while a window was open.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time of the server, from which a study computes figures.
    pub server: Cpu,
    /// CPU time of the whole machine: the server, its load, all other processes, and interrupts.
    pub machine_ns: u64,
    /// CPU time of other processes, as a share of one CPU.
    pub others_share: f64,
    /// Time that the hypervisor took, as a share of one CPU.
    pub steal_share: f64,
    /// `true` if the machine was quiet when the measurement began.
    pub quiet_before: bool,
}

impl Usage {
    /// Returns `true` if others used too much CPU time, or the machine was not quiet before.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        !self.quiet_before || self.disturbance() > OTHERS_SHARE_MAX
    }

    /// Returns the CPU time that went to neither the server nor its load, as a share of one CPU.
    #[must_use]
    pub fn disturbance(&self) -> f64 {
        self.others_share + self.steal_share
    }
}

/// A measurement in progress.
pub struct Window {
    server_pid: Option<u32>,
    opened: Reading,
    quiet_before: bool,
}

impl Window {
    /// Waits until the machine is quiet, then starts counting. Without a server, the measured
    /// processes are children that this program waits for.
    ///
    /// # Errors
    ///
    /// The errors of reading `/proc`.
    pub fn open(server_pid: Option<u32>, wait_max: Duration) -> Result<Window> {
        let quiet_before = wait_until_quiet(server_pid, wait_max)?;
        Ok(Window {
            server_pid,
            opened: Reading::take(server_pid)?,
            quiet_before,
        })
    }

    /// Starts counting again without another wait, after preparations.
    ///
    /// # Errors
    ///
    /// The errors of reading `/proc`.
    pub fn restart(&mut self) -> Result<()> {
        self.opened = Reading::take(self.server_pid)?;
        Ok(())
    }

    /// Returns the CPU use since the start.
    ///
    /// # Errors
    ///
    /// The errors of reading `/proc`.
    pub fn close(self) -> Result<Usage> {
        let usage = Reading::take(self.server_pid)?.since(&self.opened, self.quiet_before);
        QUIET_UNTIL.set((!usage.is_disturbed()).then(|| Instant::now() + QUIET_AFTER));
        Ok(usage)
    }
}

thread_local! {
    /// The time until which the machine counts as quiet.
    static QUIET_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Waits for a quiet machine. Returns whether it became quiet in time.
///
/// # Errors
///
/// The errors of reading `/proc`.
pub fn wait_until_quiet(server_pid: Option<u32>, wait_max: Duration) -> Result<bool> {
    if QUIET_UNTIL
        .get()
        .is_some_and(|until| Instant::now() < until)
    {
        return Ok(true);
    }
    let deadline = Instant::now() + wait_max;
    while Instant::now() < deadline {
        let before = Reading::take(server_pid)?;
        thread::sleep(QUIET_FOR);
        let usage = Reading::take(server_pid)?.since(&before, true);
        if !usage.is_disturbed() {
            QUIET_UNTIL.set(Some(Instant::now() + QUIET_AFTER));
            return Ok(true);
        }
    }
    Ok(false)
}

struct Reading {
    at: Instant,
    machine: Machine,
    own_ns: u64,
    server: Cpu,
}

impl Reading {
    fn take(server_pid: Option<u32>) -> Result<Reading> {
        Ok(Reading {
            at: Instant::now(),
            machine: Machine::read()?,
            own_ns: proc::own_cpu_ns(server_pid)?,
            server: server_pid.map_or_else(|| Ok(Cpu::default()), proc::tree_cpu)?,
        })
    }

    /// Returns the CPU use since an earlier reading.
    fn since(&self, earlier: &Reading, quiet_before: bool) -> Usage {
        let server = self.server - earlier.server;
        let wall_ns = (self.at - earlier.at).as_nanos() as f64;
        let busy_ns = self.machine.busy_ns.saturating_sub(earlier.machine.busy_ns);
        let own_ns = self.own_ns.saturating_sub(earlier.own_ns);
        let others_ns = busy_ns
            .saturating_sub(own_ns)
            .saturating_sub(server.total_ns());
        let steal_ns = self
            .machine
            .steal_ns
            .saturating_sub(earlier.machine.steal_ns);
        Usage {
            server,
            machine_ns: busy_ns,
            others_share: others_ns as f64 / wall_ns,
            steal_share: steal_ns as f64 / wall_ns,
            quiet_before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_what_neither_the_server_nor_its_load_used() {
        let at = Instant::now();
        let reading = |wall_ms, busy_ms: u64, steal_ms: u64, own_ms: u64, server_ms: u64| Reading {
            at: at + Duration::from_millis(wall_ms),
            machine: Machine {
                busy_ns: busy_ms * 1_000_000,
                steal_ns: steal_ms * 1_000_000,
            },
            own_ns: own_ms * 1_000_000,
            server: Cpu {
                threads_ns: server_ms * 1_000_000,
                ..Cpu::default()
            },
        };
        let start = reading(0, 5000, 100, 300, 200);
        let check = |end: Reading, others_share: f64, steal_share: f64| {
            let usage = end.since(&start, true);
            let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            assert!(near(usage.others_share, others_share), "{usage:?}");
            assert_eq!(usage.machine_ns, end.machine.busy_ns - 5_000_000_000);
            assert!(near(usage.steal_share, steal_share), "{usage:?}");
        };
        check(reading(1000, 7000, 100, 1300, 1200), 0.0, 0.0);
        check(reading(1000, 6500, 150, 1000, 700), 0.3, 0.05);
        // Ticks are coarse: a negative sum counts as zero.
        check(reading(1000, 6000, 100, 1300, 1200), 0.0, 0.0);
    }

    #[test]
    fn a_window_is_disturbed_by_others_by_steal_or_by_a_restless_start() {
        let check = |others_share, steal_share, quiet_before, expected| {
            let usage = Usage {
                others_share,
                steal_share,
                quiet_before,
                ..Usage::default()
            };
            assert_eq!(usage.is_disturbed(), expected, "{usage:?}");
        };
        check(0.02, 0.01, true, false);
        check(0.20, 0.00, true, true);
        check(0.06, 0.06, true, true);
        check(0.00, 0.00, false, true);
    }
}
