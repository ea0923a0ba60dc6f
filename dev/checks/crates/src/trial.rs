//! One use in this process, beside fibers that tick.
//!
//! A ticking fiber sleeps for 1 ms, again and again. Its longest pause shows for how long a use has
//! stopped other fibers. A thread that does the same shows for how long the machine was busy with
//! other programs.

use std::any::Any;
use std::fmt;
use std::fs;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::mode::Mode;
use crate::uses::Use;

/// The pause that a ticking fiber asks for.
const TICK: Duration = Duration::from_millis(1);

/// How long a ticking fiber computes at first, so that an idle worker takes the next one: each
/// worker then has one.
const SPREAD: Duration = Duration::from_millis(5);

/// Stack of a fiber, which is that of a thread of `std`: crates expect it.
const STACK: usize = 2 << 20;

/// The outcome of a trial that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// `None` if the use has ended right.
    pub(crate) failure: Option<String>,
    pub(crate) duration_ms: u128,
    pub(crate) pause_ms: u128,
    /// The longest pause of a ticking thread.
    pub(crate) thread_pause_ms: u128,
    /// Number of threads that have started for the copies and are there at their end, as those are
    /// that went on in place of a blocked one.
    pub(crate) threads: usize,
}

/// Runs copies of a use at once, and returns after the runtime has ended. The runtime of a use that
/// fails is left alone, as its fibers may wait forever.
pub(crate) fn run(
    item: &'static Use,
    mode: Mode,
    workers: usize,
    copies: usize,
) -> Result<Report, String> {
    let builder = mode.builder().workers(workers).stack_size(STACK);
    let runtime = builder.build().map_err(|error| error.to_string())?;
    let ends = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        let thread = scope.spawn(|| tick(&ends, thread::sleep));
        let report = runtime.run(|| beside_ticks(item, workers, copies, &ends));
        let pause = thread.join().expect("a ticking thread does not panic");
        Report {
            thread_pause_ms: pause.as_millis(),
            ..report
        }
    });
    match report.failure {
        None => drop(runtime),
        Some(_) => std::mem::forget(runtime),
    }
    Ok(report)
}

fn beside_ticks(item: &'static Use, workers: usize, copies: usize, ends: &AtomicBool) -> Report {
    uthread::scope(|scope| {
        let ticker = |_| scope.spawn(|| tick(ends, uthread::sleep));
        let tickers: Vec<_> = (0..workers).map(ticker).collect();
        uthread::sleep(2 * SPREAD);
        let threads = tasks();
        let start = Instant::now();
        let copies: Vec<_> = (0..copies).map(|_| uthread::spawn(item.run)).collect();
        let results = copies.into_iter().map(|copy| copy.join());
        // Waits for each copy, unless one has failed.
        let result: Result<(), _> = results.collect();
        let duration = start.elapsed();
        let threads = tasks().saturating_sub(threads);
        ends.store(true, Ordering::Relaxed);
        let pauses = tickers.into_iter().map(|ticker| ticker.join());
        let pauses = pauses.map(|pause| pause.expect("a ticking fiber does not panic"));
        Report {
            failure: result.err().map(|payload| message(&*payload)),
            duration_ms: duration.as_millis(),
            pause_ms: pauses.max().unwrap_or_default().as_millis(),
            thread_pause_ms: 0,
            threads,
        }
    })
}

/// Returns the number of threads of the process.
fn tasks() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Ticks until `ends`, and returns the longest pause.
fn tick(ends: &AtomicBool, sleep: impl Fn(Duration)) -> Duration {
    let start = Instant::now();
    while start.elapsed() < SPREAD {
        std::hint::spin_loop();
    }
    let mut longest = Duration::ZERO;
    while !ends.load(Ordering::Relaxed) {
        let start = Instant::now();
        sleep(TICK);
        longest = longest.max(start.elapsed());
    }
    longest
}

/// Returns the message of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message")
        .replace('\n', " ")
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.failure {
            None => "ok",
            Some(_) => "wrong",
        };
        write!(
            out,
            "{verdict} in {} ms, longest pause {} ms, of a thread {} ms, {} threads: {}",
            self.duration_ms,
            self.pause_ms,
            self.thread_pause_ms,
            self.threads,
            self.failure.as_deref().unwrap_or("as expected")
        )
    }
}

impl FromStr for Report {
    type Err = String;

    fn from_str(text: &str) -> Result<Report, String> {
        let parse = || {
            let (verdict, rest) = text.trim().split_once(" in ")?;
            let (duration, rest) = rest.split_once(" ms, longest pause ")?;
            let (pause, rest) = rest.split_once(" ms, of a thread ")?;
            let (thread_pause, rest) = rest.split_once(" ms, ")?;
            let (threads, reason) = rest.split_once(" threads: ")?;
            Some(Report {
                failure: (verdict != "ok").then(|| reason.to_owned()),
                duration_ms: duration.parse().ok()?,
                pause_ms: pause.parse().ok()?,
                thread_pause_ms: thread_pause.parse().ok()?,
                threads: threads.parse().ok()?,
            })
        };
        parse().ok_or_else(|| format!("not a report: `{text}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_printed() {
        for failure in [None, Some("a ms: b in c".to_owned())] {
            let report = Report {
                failure,
                duration_ms: 123,
                pause_ms: 4,
                thread_pause_ms: 5,
                threads: 6,
            };
            assert_eq!(report.to_string().parse(), Ok(report));
        }
    }
}
