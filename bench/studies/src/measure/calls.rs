//! How often a server enters the kernel, and how often its threads are switched.
//!
//! The kernel counts calls at its tracepoint `raw_syscalls:sys_enter`, in a counter for each thread, which new threads
//! inherit. Counting slows every call down, so it is done in a run of its own, never in one that is timed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use procfs::process::Task;
use rustix::io::Errno;

use super::proc::{if_alive, threads, tree, tree_cpu};
use crate::say::say;
use crate::setup::{OPEN_FILES_SPARE, raise_open_files};

/// Files with the number of the tracepoint: where tracefs is mounted now, and where older systems had it.
const TRACEPOINTS: [&str; 2] = [
    "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
    "/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id",
];
const NO_TRACEPOINT: &str = "no tracefs is mounted that has raw_syscalls:sys_enter; to have it: \
    mount -t tracefs tracefs /sys/kernel/tracing";
const NOT_ALLOWED: &str = "it takes root, or CAP_PERFMON and a tracefs that may be read";

/// Counts of the threads of a process tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) system_calls: Count,
    /// Only of the threads that were alive at the end.
    pub(crate) switches: u64,
}

/// A number, or the reason why there is none here with its remedy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Count {
    Known(u64),
    Unknown(String),
}

impl fmt::Display for Count {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Count::Known(count) => write!(formatter, "{count}"),
            Count::Unknown(reason) => write!(formatter, "unknown: {reason}"),
        }
    }
}

/// Prints the counts of this many seconds, and the CPU time of the kernel's own threads.
pub(crate) fn run(pid: u32, seconds: u64) -> Result<()> {
    let before = tree_cpu(pid)?;
    let (cpu, counted) = count(pid, || {
        thread::sleep(Duration::from_secs(seconds));
        Ok(tree_cpu(pid)? - before)
    })?;
    say!("system calls: {}", counted.system_calls);
    say!("context switches: {}", counted.switches);
    say!("CPU of all threads: {} ns", cpu.threads_ns);
    say!("of that kernel helper threads: {} ns", cpu.helpers_ns);
    Ok(())
}

/// Returns whether system calls can be counted here.
pub(crate) fn has_tracepoint() -> bool {
    sys_enter(&TRACEPOINTS).is_ok()
}

/// Counts the calls and switches of `root`, its descendants and all threads they start during `work`.
pub(crate) fn count<T>(root: u32, work: impl FnOnce() -> Result<T>) -> Result<(T, Counted)> {
    let mut counters = Counters::attach(&threads_of(root)?);
    let calls_before = counters.as_mut().map_or(Ok(0), Counters::read)?;
    let switches_before = Switches::read(root)?;
    let result = work()?;
    let switches = Switches::read(root)?.since(&switches_before);
    let system_calls = match &mut counters {
        Ok(counters) => Count::Known(counters.read()? - calls_before),
        Err(reason) => Count::Unknown(reason.clone()),
    };
    let counted = Counted {
        system_calls,
        switches,
    };
    Ok((result, counted))
}

/// A counter for each thread that was alive at the start.
struct Counters(Vec<Counter>);

impl Counters {
    /// Attaches the counters, or returns the reason why nothing can be counted.
    fn attach(threads: &[Task]) -> Result<Counters, String> {
        let tracepoint = Tracepoint::with_id(sys_enter(&TRACEPOINTS)?);
        raise_open_files(threads.len() as u64 + OPEN_FILES_SPARE)
            .map_err(|error| error.to_string())?;
        let mut counters = Vec::with_capacity(threads.len());
        for thread in threads {
            // By default the counter excludes the kernel, and a call is entered there.
            let counter = Builder::new(tracepoint)
                .include_kernel()
                .observe_pid(thread.tid)
                .any_cpu()
                .inherit(true)
                .enabled(true)
                .build();
            match counter {
                Ok(counter) => counters.push(counter),
                Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
                Err(error) => return Err(explain(&error)),
            }
        }
        Ok(Counters(counters))
    }

    fn read(&mut self) -> Result<u64> {
        let counts = self.0.iter_mut().map(Counter::read);
        let sum: io::Result<u64> = counts.sum();
        sum.context("read the counters of system calls")
    }
}

/// Reads the number of the tracepoint from the first file that exists. Mounts nothing.
fn sys_enter(files: &[&str]) -> Result<u64, String> {
    let missing = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    let mut read = files.iter().map(fs::read_to_string);
    match read.find(|text| !text.as_ref().is_err_and(missing)) {
        None => Err(NO_TRACEPOINT.to_owned()),
        Some(Err(error)) => Err(explain(&error)),
        Some(Ok(text)) => text
            .trim()
            .parse()
            .map_err(|_| format!("{text:?} is no number of a tracepoint")),
    }
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => format!("{error}: {NOT_ALLOWED}"),
        _ => error.to_string(),
    }
}

fn threads_of(root: u32) -> Result<Vec<Task>> {
    let of_processes: Result<Vec<_>> = tree(root)?.iter().map(threads).collect();
    Ok(of_processes?.into_iter().flatten().collect())
}

/// How often each thread, by its process and its own number, has been switched away from since it began. The kernel counts
/// this anyway, so reading it costs the threads nothing.
pub(crate) struct Switches(BTreeMap<(i32, i32), u64>);

impl Switches {
    /// Reads the counts of `root` and its descendants.
    pub(crate) fn read(root: u32) -> Result<Switches> {
        let mut found = BTreeMap::new();
        for thread in threads_of(root)? {
            if let Some(status) = if_alive(thread.status())? {
                let waited = status.voluntary_ctxt_switches.unwrap_or(0);
                let preempted = status.nonvoluntary_ctxt_switches.unwrap_or(0);
                found.insert((thread.pid, thread.tid), waited + preempted);
            }
        }
        Ok(Switches(found))
    }

    /// Returns the switches of the threads that are alive now, since `before` or since they began.
    pub(crate) fn since(&self, before: &Switches) -> u64 {
        let since = |(thread, count): (&(i32, i32), &u64)| {
            let earlier = before.0.get(thread).copied().unwrap_or(0);
            count.saturating_sub(earlier)
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
        let reading = |counts: &[(i32, u64)]| {
            let thread = |&(id, count)| ((1, id), count);
            Switches(counts.iter().map(thread).collect())
        };
        let before = reading(&[(1, 10), (2, 20), (3, 30)]);
        let after = reading(&[(1, 15), (2, 20), (4, 100)]);
        assert_eq!(after.since(&before), 105);
    }

    #[test]
    fn a_tracepoint_that_is_not_there_names_the_remedy() {
        let nowhere = ["/no/such/file", "/nor/this"];
        assert_eq!(sys_enter(&nowhere), Err(NO_TRACEPOINT.to_owned()));
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, "443\n").unwrap();
        let there = file.path().to_str().unwrap();
        assert_eq!(sys_enter(&["/no/such/file", there]), Ok(443));
        fs::write(&file, "none\n").unwrap();
        assert!(sys_enter(&[there]).unwrap_err().contains("none"));
        let denied = explain(&ErrorKind::PermissionDenied.into());
        assert!(denied.ends_with(NOT_ALLOWED), "{denied}");
    }

    /// `dd` reads and writes each line, and has no reason to do much else.
    #[test]
    fn the_calls_of_another_process_are_counted() {
        const LINES: u64 = 100;
        let mut dd = Command::new("dd")
            .args(["bs=5", "status=none"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut to, mut from) = (dd.stdin.take().unwrap(), dd.stdout.take().unwrap());
        let mut from = BufReader::new(&mut from);
        let mut exchange = |lines| {
            for _ in 0..lines {
                to.write_all(b"line\n")?;
                from.read_line(&mut String::new())?;
            }
            Ok(())
        };
        exchange(1).unwrap();
        let (_, counted) = count(dd.id(), || exchange(LINES)).unwrap();
        drop(to);
        dd.wait().unwrap();
        // It may not have got to its next read when a count begins or ends.
        match &counted.system_calls {
            Count::Known(calls) => {
                assert!((2 * LINES - 1..3 * LINES).contains(calls), "{calls} calls");
            }
            Count::Unknown(reason) => println!("system calls were not checked: {reason}"),
        }
        assert!(counted.switches > 0, "{counted:?}");
    }
}
