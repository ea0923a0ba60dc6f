//! The same small programs as in `bench/peers`, on uthread; `bench/peers/README.md` describes the commands.

pub(crate) mod disk;
pub(crate) mod echo;
mod fixed;
#[path = "../../peers/forks.rs"]
mod forks;
#[path = "../../peers/measure.rs"]
mod measure;
mod requests;
#[path = "../../peers/spawned.rs"]
mod spawned;

use anyhow::{Result, bail};
use uthread as threads;
use uthread::join;

use crate::mode::Mode;
use measure::report;
use spawned::{create, pingpong, sleepers, spawn_join, yields};

/// The commands of `uthread-bench own`, each for a process of its own.
#[derive(clap::Subcommand)]
pub(crate) enum Measured {
    Disk(disk::Reads),
    Echo(echo::Echo),
    /// The other commands, with their numbers
    #[command(external_subcommand)]
    Other(Vec<String>),
}

pub(crate) fn run(mode: Mode, measured: &Measured) -> Result<()> {
    let runtime = |workers| mode.runtime(workers);
    let words = match measured {
        Measured::Disk(reads) => return reads.run(&runtime(1)?),
        Measured::Echo(echo) => return echo.serve(runtime(echo.workers)?),
        Measured::Other(words) => words,
    };
    let numbers: Result<Vec<usize>, _> = words[1..].iter().map(|word| word.parse()).collect();
    match (&*words[0], &numbers?[..]) {
        ("spawn", &[count]) => report([runtime(1)?.run(|| spawn_join(count))]),
        ("yield", &[fibers, count]) => report([runtime(1)?.run(|| yields(fibers, count))]),
        ("create", &[count]) => report(runtime(1)?.run(|| create(count))),
        ("fib", &[workers]) => report([runtime(workers)?.run(forks::fib_38)]),
        ("sort", &[workers, count]) => report([runtime(workers)?.run(|| forks::sort(count))]),
        ("sleepers", &[count]) => report([runtime(2)?.run(|| sleepers(count))]),
        ("pingpong", &[workers, count]) => report([runtime(workers)?.run(|| pingpong(count))]),
        ("fixed", &[port, workers]) => return fixed::serve(port.try_into()?, runtime(workers)?),
        ("requests", &[fibers, requests]) => {
            return requests::perform(&runtime(1)?, fibers.try_into()?, requests.try_into()?);
        }
        (command, numbers) => bail!("no command {command} with the numbers {numbers:?}"),
    }
    Ok(())
}
