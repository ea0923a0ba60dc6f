//! System calls and context switches of a process tree.
//!
//! The kernel counts calls at its tracepoint `raw_syscalls:sys_enter`, in a counter for each
//! thread, which new threads inherit. Counting slows every call down, so it is done in a run of its
//! own, never in one that is timed.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use anyhow::{Context, Result};
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use procfs::process::Task;
use rustix::io::Errno;

use uthread_load::raise_open_files;
use uthread_report::measure::proc::{if_alive, threads, tree};

use crate::setup::OPEN_FILES_SPARE;

/// Files with the number of the tracepoint: where tracefs is mounted now, and where older systems
/// had it.
const TRACEPOINTS: [&str; 2] = [
    "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
    "/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id",
];

/// Runs `work` and counts the system calls of `root`, its descendants and all threads they start
/// meanwhile. The count is `None` without a tracefs, or without root and `CAP_PERFMON`.
pub(crate) fn count<T>(root: u32, work: impl FnOnce() -> Result<T>) -> Result<(T, Option<u64>)> {
    let mut counters = attach(&threads_of(root)?)?;
    let before = read(&mut counters)?;
    let result = work()?;
    let calls = read(&mut counters)?.zip(before);
    Ok((result, calls.map(|(now, before)| now - before)))
}

/// Returns whether system calls can be counted here.
pub(crate) fn can_count() -> bool {
    tracepoint().is_some()
}

fn tracepoint() -> Option<Tracepoint> {
    let texts = TRACEPOINTS
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok());
    let mut numbers = texts.filter_map(|text| text.trim().parse().ok());
    numbers.next().map(Tracepoint::with_id)
}

/// Attaches a counter to each thread.
fn attach(threads: &[Task]) -> Result<Option<Vec<Counter>>> {
    let Some(tracepoint) = tracepoint() else {
        return Ok(None);
    };
    raise_open_files(threads.len() as u64 + OPEN_FILES_SPARE)?;
    let mut counters = Vec::with_capacity(threads.len());
    for thread in threads {
        // By default the counter excludes the kernel, and a call is entered there.
        let mut builder = Builder::new(tracepoint);
        builder.include_kernel().observe_pid(thread.tid).any_cpu();
        match builder.inherit(true).enabled(true).build() {
            Ok(counter) => counters.push(counter),
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(counters))
}

fn read(counters: &mut Option<Vec<Counter>>) -> Result<Option<u64>> {
    let Some(counters) = counters else {
        return Ok(None);
    };
    let sum: io::Result<u64> = counters.iter_mut().map(Counter::read).sum();
    sum.map(Some).context("read the counters of system calls")
}

fn threads_of(root: u32) -> Result<Vec<Task>> {
    let of_processes: Result<Vec<_>> = tree(root)?.iter().map(threads).collect();
    Ok(of_processes?.into_iter().flatten().collect())
}

/// Context switches of each thread since it began. The kernel counts this anyway, so reading it
/// costs the threads nothing.
pub(crate) struct Switches(BTreeMap<i32, u64>);

impl Switches {
    /// Reads the counts of `root` and its descendants.
    pub(crate) fn read(root: u32) -> Result<Switches> {
        let mut found = BTreeMap::new();
        for thread in threads_of(root)? {
            if let Some(status) = if_alive(thread.status())? {
                let waited = status.voluntary_ctxt_switches.unwrap_or(0);
                let preempted = status.nonvoluntary_ctxt_switches.unwrap_or(0);
                found.insert(thread.tid, waited + preempted);
            }
        }
        Ok(Switches(found))
    }

    /// Returns the switches of the threads that are alive now, since `before` or since they began.
    pub(crate) fn since(&self, before: &Switches) -> u64 {
        let since = |(thread, count): (&i32, &u64)| {
            count.saturating_sub(before.0.get(thread).copied().unwrap_or(0))
        };
        self.0.iter().map(since).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn threads_count_from_when_they_began_and_to_when_they_ended() {
        let reading = |counts: &[(i32, u64)]| Switches(counts.iter().copied().collect());
        let before = reading(&[(1, 10), (2, 20), (3, 30)]);
        assert_eq!(reading(&[(1, 15), (2, 20), (4, 100)]).since(&before), 105);
    }

    #[test]
    fn the_calls_of_another_process_are_counted() {
        // `dd` reads and writes each line, and has no reason to do much else.
        const LINES: u64 = 100;
        let mut command = Command::new("dd");
        command.args(["bs=5", "status=none"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut dd = command.spawn().unwrap();
        let (mut to, from) = (dd.stdin.take().unwrap(), dd.stdout.take().unwrap());
        let mut from = BufReader::new(from);
        let mut exchange = |lines| {
            for _ in 0..lines {
                to.write_all(b"line\n")?;
                from.read_line(&mut String::new())?;
            }
            Ok(())
        };
        exchange(1).unwrap();
        let before = Switches::read(dd.id()).unwrap();
        let (_, calls) = count(dd.id(), || exchange(LINES)).unwrap();
        assert!(Switches::read(dd.id()).unwrap().since(&before) > 0);
        drop(to);
        dd.wait().unwrap();
        // `dd` may not have reached its next read when a count begins or ends.
        match calls {
            Some(calls) => assert!((2 * LINES - 1..3 * LINES).contains(&calls), "{calls} calls"),
            None => println!("system calls were not counted: no tracefs, or no permission"),
        }
    }
}
