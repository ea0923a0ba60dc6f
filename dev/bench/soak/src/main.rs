//! `uthread-soak`: runs one runtime after another, lets each do everything at once under a seed,
//! and compares all counts at the end of each.
//!
//! [`epoch`] is the life of one runtime, [`scenarios`] what its fibers do, [`messages`] how their
//! streams are checked, [`leftovers`] what a dropped runtime must not leave behind.
//!
//! Exit codes: 0 nothing wrong, 1 a violation or an error, 2 wrong arguments.

mod epoch;
mod leftovers;
mod messages;
#[path = "../../peers/uthread/src/mode.rs"]
mod mode;
mod random;
mod scenarios;
mod stage;

use std::any::Any;
use std::panic::{self, PanicHookInfo};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{io, process, thread};

use anyhow::{Context, Result};
use clap::Parser;
use uthread::{Driver, Runtime};

use epoch::Report;
use leftovers::Holdings;
use mode::Mode;
use random::Random;
use scenarios::Planned;

/// An epoch takes some seconds; after this time it counts as hung.
const HANG: Duration = Duration::from_secs(120);
const FAILED: u8 = 1;

/// Run everything the library does at once, for a long time, and check that nothing is lost or left
/// behind
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Run for this many minutes
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Seed of the random choices [default: from the clock]; timing differs between runs all the
    /// same
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    mode: Mode,
    /// Workers of each runtime
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1023))]
    workers: u16,
    /// Allow resident memory to grow by this many MiB after the first epoch
    #[arg(long, default_value_t = 64)]
    growth_mib_max: usize,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => {
            eprintln!("uthread-soak: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

/// Counts the panics that no scenario planned.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Runs epochs until the time is over. Returns false after the first violation.
fn run(args: &Args) -> Result<bool> {
    let seed = args.seed.unwrap_or_else(seed_by_clock);
    println!("seed {seed}");
    report_unplanned_panics();
    let end = Instant::now() + Duration::from_secs(60 * args.minutes);
    let mut before = None;
    for number in 0.. {
        if number > 1 && Instant::now() >= end {
            break;
        }
        let place = format!("seed {seed}, epoch {number}");
        let (mode, growth_mib_max) = (args.mode, args.growth_mib_max);
        let workers = usize::from(args.workers);
        let random = Random::with_seed(seed.wrapping_add(number << 32));
        let epoch = move || epoch::run(mode, workers, epoch::LENGTH_MS, random);
        let report = watched(&place, epoch).context(place.clone())?;
        let mut violations = report.stage.violations();
        if PANICS.load(Ordering::Relaxed) > 0 {
            violations.push("an unplanned panic".to_owned());
        }
        let holdings = watched(&place, move || Holdings::settled(before, growth_mib_max))?;
        let holdings = holdings.unwrap_or_else(|(left, what)| {
            violations.push(what);
            left
        });
        before.get_or_insert(holdings);
        print(number, &report, &holdings);
        for violation in &violations {
            println!("{place}: {violation}");
        }
        if !violations.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn seed_by_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |now| now.as_micros() as u64)
}

/// Runs a part of the soak on a thread of its own. Ends the process if that thread hangs.
fn watched<T: Send + 'static>(
    place: &str,
    part: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(part()).is_ok());
    match receiver.recv_timeout(HANG) {
        Ok(result) => {
            let _ = thread.join();
            result
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(io::Error::other("a thread of the soak panicked"))
        }
        Err(mpsc::RecvTimeoutError::Timeout) => {
            println!("{place}: the epoch hangs");
            process::exit(i32::from(FAILED));
        }
    }
}

/// Installs a panic hook that stays silent about planned panics. It replaces the hook that the
/// first runtime installs, which reports every panic of a fiber.
fn report_unplanned_panics() {
    let first = Runtime::builder().driver(Driver::Threads).build();
    drop(first.expect("the threads driver starts no thread"));
    panic::set_hook(Box::new(report_unplanned));
}

fn report_unplanned(panic: &PanicHookInfo<'_>) {
    let payload: &dyn Any = panic.payload();
    if !payload.is::<Planned>() {
        PANICS.fetch_add(1, Ordering::Relaxed);
        eprintln!("{panic}");
    }
}

fn print(number: u64, report: &Report, holdings: &Holdings) {
    let tally = &report.stage.tally;
    println!(
        "epoch {number:4} {:8} fibers {:7} steals {:6} messages {:7} lost {:4} MB {:4} timeouts {:5} resets {:4} ({} lost) \
         refused {:4} panics {:5} rss {:4} MiB fds {:3} threads {:3} mappings {:4} addresses {:5} MiB",
        format!("{:?}", report.ending),
        tally.fibers.get(),
        report.steals,
        tally.received.get(),
        tally.lost.get(),
        tally.bytes.get() / 1_000_000,
        tally.timeouts.get(),
        tally.resets.get(),
        tally.resets_lost.get(),
        tally.refused.get(),
        tally.panics.get(),
        holdings.resident_mib,
        holdings.fds,
        holdings.threads,
        holdings.mappings,
        holdings.addresses_mib,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_epochs_find_nothing() {
        // Enough for each scenario to run a dozen times.
        const SHORT_MS: std::ops::Range<u64> = 500..1000;
        report_unplanned_panics();
        let is_exhaustive = std::env::var_os("UTHREAD_EXHAUSTIVE").is_some();
        for lean in [false, true] {
            let mode = Mode {
                lean,
                ..Mode::default()
            };
            let length_ms = if is_exhaustive {
                epoch::LENGTH_MS
            } else {
                SHORT_MS
            };
            let epoch = move || epoch::run(mode, 2, length_ms, Random::with_seed(1));
            let report = watched("a test", epoch).unwrap();
            assert_eq!(report.stage.violations(), [""; 0], "{mode:?}");
        }
    }
}
