//! CPU time of a process and all its descendants, and of the machine.
//!
//! The total comes from the scheduler's nanoseconds (`schedstat`). `stat` counts in ticks of 10 ms
//! and only splits the total into user and system time.

use std::ops::Sub;

use anyhow::{Context, Result, ensure};
use procfs::process::{Process, Stat, Task};
use procfs::{CurrentSI, KernelStats, ProcError, ProcResult};
use rustix::io::Errno;

/// A server here has a handful of processes. A larger tree is out of control.
const TREE_PROCESSES_MAX: usize = 4096;

/// Ticks round each process down by up to 10 ms in user and in system time. Below this gap the
/// nanoseconds of the living threads are the better figure; above it a thread has ended, and its
/// time is only in the ticks.
const TICK_SLACK_NS: u64 = 60_000_000;

/// Names of the kernel's threads in our processes: io_uring's worker threads and its submission
/// queue threads.
const HELPERS: [&str; 2] = ["iou-wrk-", "iou-sqp-"];

/// CPU time that a process tree has used since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    /// Time of the living threads, by the scheduler.
    pub threads_ns: u64,
    /// Time in user space, in ticks.
    pub user_ns: u64,
    /// Time in the kernel, in ticks.
    pub system_ns: u64,
    /// The part of `threads_ns` that the kernel's own threads used for the process's rings.
    pub helpers_ns: u64,
}

impl Cpu {
    /// Returns the best figure for the whole: the ticks only if a thread has ended.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        let ticks_ns = self.user_ns + self.system_ns;
        if ticks_ns > self.threads_ns + TICK_SLACK_NS {
            ticks_ns
        } else {
            self.threads_ns
        }
    }

    /// Splits the total into user and system time, in the proportion of the ticks.
    #[must_use]
    pub fn split_ns(&self) -> (f64, f64) {
        let ticks_ns = (self.user_ns + self.system_ns).max(1);
        let total_ns = self.total_ns() as f64;
        let user_ns = total_ns * self.user_ns as f64 / ticks_ns as f64;
        (user_ns, total_ns - user_ns)
    }

    fn add_thread(&mut self, name: &str, on_cpu_ns: u64) {
        self.threads_ns += on_cpu_ns;
        if HELPERS.iter().any(|helper| name.starts_with(helper)) {
            self.helpers_ns += on_cpu_ns;
        }
    }
}

impl Sub for Cpu {
    type Output = Cpu;

    fn sub(self, earlier: Cpu) -> Cpu {
        Cpu {
            threads_ns: self.threads_ns.saturating_sub(earlier.threads_ns),
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            helpers_ns: self.helpers_ns.saturating_sub(earlier.helpers_ns),
        }
    }
}

/// CPU time of the whole machine since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machine {
    /// Time of all CPUs that was not idle.
    pub busy_ns: u64,
    /// Time that the hypervisor gave to others.
    pub steal_ns: u64,
}

impl Machine {
    /// Reads the counters of the machine.
    ///
    /// # Errors
    ///
    /// The errors of reading `/proc/stat`.
    pub fn read() -> Result<Machine> {
        let total = KernelStats::current()?.total;
        let interrupts = total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
        let busy_ticks = total.user + total.nice + total.system + interrupts;
        Ok(Machine {
            busy_ns: busy_ticks * tick_ns(),
            steal_ns: total.steal.unwrap_or(0) * tick_ns(),
        })
    }
}

/// Returns the CPU time of `root` and its descendants.
///
/// # Errors
///
/// The errors of reading `/proc`; or if `root` has ended.
pub fn tree_cpu(root: u32) -> Result<Cpu> {
    let mut sum = Cpu::default();
    for process in tree(root)? {
        let Some(stat) = if_alive(process.stat())? else {
            continue;
        };
        sum.user_ns += stat.utime * tick_ns();
        sum.system_ns += stat.stime * tick_ns();
        for thread in threads(&process)? {
            let (name, schedstat) = (if_alive(thread.stat())?, if_alive(thread.schedstat())?);
            if let (Some(Stat { comm, .. }), Some(schedstat)) = (name, schedstat) {
                sum.add_thread(&comm, schedstat.sum_exec_runtime);
            }
        }
    }
    Ok(sum)
}

/// Returns the CPU time that a load uses: that of this process, of its descendants without the
/// server's, and of the children it has waited for.
///
/// # Errors
///
/// The errors of reading `/proc`.
pub fn own_cpu_ns(server_pid: Option<u32>) -> Result<u64> {
    let server = server_pid.map_or_else(|| Ok(Vec::new()), tree)?;
    let mut ticks = 0;
    for process in tree(std::process::id())? {
        let is_server = server.iter().any(|other| other.pid == process.pid);
        let stat = if_alive(process.stat())?.filter(|_| !is_server);
        if let Some(stat) = stat {
            ticks += stat.utime + stat.stime + (stat.cutime + stat.cstime).unsigned_abs();
        }
    }
    Ok(ticks * tick_ns())
}

/// Returns `root` and its descendants.
///
/// # Errors
///
/// The errors of reading `/proc`; or if `root` has ended or has thousands of descendants.
pub fn tree(root: u32) -> Result<Vec<Process>> {
    let gone = || format!("process {root} has ended while it was being measured");
    let mut found = vec![if_alive(Process::new(root as i32))?.with_context(gone)?];
    let mut next = 0;
    while next < found.len() {
        for thread in threads(&found[next])? {
            for child in if_alive(thread.children())?.unwrap_or_default() {
                found.extend(if_alive(Process::new(child as i32))?);
            }
        }
        next += 1;
        ensure!(
            found.len() <= TREE_PROCESSES_MAX,
            "process {root} has more than {TREE_PROCESSES_MAX} descendants"
        );
    }
    Ok(found)
}

/// Returns the threads of a process.
///
/// # Errors
///
/// The errors of reading `/proc`; a process that has ended has none.
pub fn threads(process: &Process) -> Result<Vec<Task>> {
    let tasks = if_alive(process.tasks())?;
    let tasks = tasks.into_iter().flatten().map(if_alive);
    tasks.filter_map(Result::transpose).collect()
}

/// Returns `None` where the process or thread has ended between being listed and being read.
///
/// # Errors
///
/// Any other error of reading.
pub fn if_alive<T>(read: ProcResult<T>) -> Result<Option<T>> {
    let srch = Some(Errno::SRCH.raw_os_error());
    match read {
        Ok(value) => Ok(Some(value)),
        Err(ProcError::NotFound(_)) => Ok(None),
        Err(ProcError::Io(error, _)) if error.raw_os_error() == srch => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn tick_ns() -> u64 {
    1_000_000_000 / procfs::ticks_per_second().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn kernel_threads_are_counted_apart() {
        let mut cpu = Cpu::default();
        for (name, ns) in [
            ("uthread-0", 1),
            ("iou-wrk-4711", 20),
            ("iou-sqp-4711", 300),
        ] {
            cpu.add_thread(name, ns);
        }
        assert_eq!((cpu.threads_ns, cpu.helpers_ns), (321, 320));
    }

    #[test]
    fn ticks_replace_nanoseconds_only_when_a_thread_has_ended() {
        let check = |threads_ns, expected| {
            let cpu = Cpu {
                threads_ns,
                user_ns: 300_000_000,
                system_ns: 700_000_000,
                helpers_ns: 0,
            };
            assert_eq!(cpu.total_ns(), expected, "{cpu:?}");
        };
        check(1_003_000_000, 1_003_000_000);
        check(990_000_000, 990_000_000);
        check(500_000_000, 1_000_000_000);
    }

    #[test]
    fn the_load_is_counted_without_the_server() {
        let mut child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let pid = child.id();
        while tree_cpu(pid).unwrap().threads_ns < 100_000_000 {}
        let with = own_cpu_ns(None).unwrap();
        let without = own_cpu_ns(Some(pid)).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // The kernel counts the time of the child in ticks.
        assert!(with >= without + 50_000_000, "{with} and {without}");
        assert!(Machine::read().unwrap().busy_ns > 0);
        assert!(tree(i32::MAX as u32).is_err());
    }
}
