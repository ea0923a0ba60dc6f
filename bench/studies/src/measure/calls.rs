//! How often a server enters the kernel, and how often its threads are switched.
//!
//! Calls are counted by the kernel at its tracepoint `raw_syscalls:sys_enter`, in a counter for each thread, which those that
//! the thread starts inherit. That makes every call slower, so it is done in a run of its own, never in one that is timed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};

use super::proc::{has_ended, read_if_alive, threads, tree, tree_cpu};
use crate::say::say;
use crate::setup::{OPEN_FILES_SPARE, raise_open_files};

/// The number of the tracepoint, where tracefs is mounted now, and where it was on older systems.
const TRACEPOINTS: [&str; 2] = [
    "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
    "/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id",
];
const NO_TRACEPOINT: &str = "no tracefs is mounted that has raw_syscalls:sys_enter; to have it: \
    mount -t tracefs tracefs /sys/kernel/tracing";
const NOT_ALLOWED: &str = "it takes root, or CAP_PERFMON and a tracefs that may be read";

/// What the threads of a process tree did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) system_calls: Count,
    /// Of the threads that were there at the end.
    pub(crate) switches: u64,
}

/// A number, or why there is none here and what to do about it.
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

/// Prints the counts of so many seconds, and what of the CPU time was the kernel's own threads'.
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

/// Whether the kernel has here what system calls are counted by.
pub(crate) fn has_tracepoint() -> bool {
    sys_enter(&TRACEPOINTS).is_ok()
}

/// Counts what `root` and its descendants do during `work`, with the threads that they start meanwhile.
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

/// One for each thread that there was.
struct Counters(Vec<Counter>);

impl Counters {
    /// The error says why nothing is counted.
    fn attach(threads: &[Thread]) -> Result<Counters, String> {
        let tracepoint = Tracepoint::with_id(sys_enter(&TRACEPOINTS)?);
        raise_open_files(threads.len() as u64 + OPEN_FILES_SPARE)
            .map_err(|error| error.to_string())?;
        let mut counters = Vec::with_capacity(threads.len());
        for thread in threads {
            // The kernel hides its own part of whatever it counts, unless told otherwise, and a call is entered there.
            let counter = Builder::new(tracepoint)
                .include_kernel()
                .observe_pid(thread.id as i32)
                .any_cpu()
                .inherit(true)
                .enabled(true)
                .build();
            match counter {
                Ok(counter) => counters.push(counter),
                Err(error) if has_ended(&error) => {}
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

/// The number of the tracepoint, from the first of the files that is there. It mounts nothing.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Thread {
    process: u32,
    id: u32,
}

fn threads_of(root: u32) -> Result<Vec<Thread>> {
    let mut found = Vec::new();
    for process in tree(root)? {
        let ids = threads(process)?.into_iter();
        found.extend(ids.map(|id| Thread { process, id }));
    }
    Ok(found)
}

/// How often each thread has been switched away from since it began. The kernel counts that anyway, so reading it costs the
/// threads nothing.
pub(crate) struct Switches(BTreeMap<Thread, u64>);

impl Switches {
    /// Of `root` and its descendants.
    pub(crate) fn read(root: u32) -> Result<Switches> {
        let mut found = BTreeMap::new();
        for thread in threads_of(root)? {
            let Thread { process, id } = thread;
            if let Some(text) = read_if_alive(&format!("/proc/{process}/task/{id}/status"))? {
                found.insert(thread, parse_switches(&text)?);
            }
        }
        Ok(Switches(found))
    }

    /// Of the threads that are there now, since `before` or since they began.
    pub(crate) fn since(&self, before: &Switches) -> u64 {
        let since = |(thread, count): (&Thread, &u64)| {
            let earlier = before.0.get(thread).copied().unwrap_or(0);
            count.saturating_sub(earlier)
        };
        self.0.iter().map(since).sum()
    }
}

/// Both kinds of `/proc/PID/task/TID/status`: those in which it waited, and those in which its time was over.
fn parse_switches(text: &str) -> Result<u64> {
    let mut sum = 0;
    for name in ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"] {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        let value = value.with_context(|| format!("status: no {name}"))?.trim();
        sum += value
            .parse::<u64>()
            .with_context(|| format!("status: {value:?} is not a count"))?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn both_kinds_of_switches_count() {
        let text = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(parse_switches(text).unwrap(), 157);
        assert!(parse_switches("voluntary_ctxt_switches:\t150\n").is_err());
        assert!(parse_switches(&text.replace("150", "many")).is_err());
    }

    #[test]
    fn threads_count_from_when_they_began_and_to_when_they_ended() {
        let reading = |counts: &[(u32, u64)]| {
            let thread = |&(id, count)| (Thread { process: 1, id }, count);
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
