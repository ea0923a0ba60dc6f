//! The arguments of `uthread top`.

use std::time::Duration;

use clap::Args;

use super::positive_duration;

/// The least interval: people read no faster, and shares of time need some looks.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

const NOTES: &str = "\
The process need not have been built or started for this, and is not stopped. Its counters and \
its fibers are read from outside: each worker some hundred times a second, for the shares of time, \
and all fibers once an interval. Only Enter stops it for a moment, as uthread dump does. \
x86-64 only.

Columns:
  busy      of a worker: share of time that fibers run on it, including fibers that block it;
            of a place: number of its fibers that run, with or without a worker, in percent
  steals    new fibers that the worker took from others, per second
  enters    system calls of the driver, per second
  in flight fibers that wait for an operation of the kernel
  waits     the least time for which the fiber that waits for longest is suspended

Keys: q quit, arrows select, s sort by the next column, space freeze, Enter dump the fibers of \
the selected place, ? help

Exit codes:
  0 success
  1 the process cannot be read, or has ended
  2 wrong usage, or no terminal";

#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct TopArgs {
    /// Id of the process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: i32,
    /// Time between two samples
    #[arg(long, default_value = "1s", value_parser = interval, value_name = "DURATION")]
    pub(crate) interval: Duration,
    /// Print one sample as text, after one interval
    #[arg(long)]
    pub(crate) once: bool,
    /// With --once: print JSON
    #[arg(long, requires = "once")]
    pub(crate) json: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = positive_duration(text)?;
    if interval < INTERVAL_MIN {
        return Err("must be at least 100ms".to_owned());
    }
    Ok(interval)
}
