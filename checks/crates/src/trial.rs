//! One use in this process, beside fibers that tick.
//!
//! A ticking fiber sleeps for 1 ms, again and again. Its longest pause shows for how long a use has stopped other fibers.

use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::mode::Mode;
use crate::uses::Use;

/// The pause that a ticking fiber asks for.
const TICK: Duration = Duration::from_millis(1);

/// How long a ticking fiber computes at first, so that an idle worker takes the next one: each worker then has one.
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
}

/// Runs a use, and returns after the runtime has ended. The runtime of a use that fails is left alone, as its fibers may wait
/// forever.
pub(crate) fn run(item: &'static Use, mode: Mode, workers: usize) -> Result<Report, String> {
    let builder = mode.builder().workers(workers).stack_size(STACK);
    let runtime = builder.build().map_err(|error| error.to_string())?;
    let report = runtime.run(|| beside_ticks(item, workers));
    match report.failure {
        None => drop(runtime),
        Some(_) => std::mem::forget(runtime),
    }
    Ok(report)
}

fn beside_ticks(item: &'static Use, workers: usize) -> Report {
    let ends = AtomicBool::new(false);
    uthread::scope(|scope| {
        let tickers: Vec<_> = (0..workers).map(|_| scope.spawn(|| tick(&ends))).collect();
        uthread::sleep(2 * SPREAD);
        let start = Instant::now();
        let result = uthread::spawn(item.run).join();
        let duration = start.elapsed();
        ends.store(true, Ordering::Relaxed);
        let pauses = tickers.into_iter().map(|ticker| ticker.join());
        let pauses = pauses.map(|pause| pause.expect("a ticking fiber does not panic"));
        Report {
            failure: result.err().map(|payload| message(&*payload)),
            duration_ms: duration.as_millis(),
            pause_ms: pauses.max().unwrap_or_default().as_millis(),
        }
    })
}

/// Ticks until `ends`, and returns the longest pause.
fn tick(ends: &AtomicBool) -> Duration {
    let start = Instant::now();
    while start.elapsed() < SPREAD {
        std::hint::spin_loop();
    }
    let mut longest = Duration::ZERO;
    while !ends.load(Ordering::Relaxed) {
        let start = Instant::now();
        uthread::sleep(TICK);
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
        let (duration, pause) = (self.duration_ms, self.pause_ms);
        write!(
            out,
            "{verdict} in {duration} ms, longest pause {pause} ms: {}",
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
            let (pause, reason) = rest.split_once(" ms: ")?;
            Some(Report {
                failure: (verdict != "ok").then(|| reason.to_owned()),
                duration_ms: duration.parse().ok()?,
                pause_ms: pause.parse().ok()?,
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
            };
            assert_eq!(report.to_string().parse(), Ok(report));
        }
    }
}
