//! The small programs of `bench/peers`, on uthread. `bench/peers/README.md` describes what each command measures.

pub(crate) mod disk;
pub(crate) mod echo;
mod fixed;
#[path = "../../peers/forks.rs"]
mod forks;
#[path = "../../peers/measure.rs"]
#[allow(
    clippy::print_stdout,
    reason = "the peers have the same file, and not ours for saying something"
)]
mod measure;
mod requests;
#[path = "../../peers/spawned.rs"]
mod spawned;

use anyhow::Result;
use uthread as threads;
use uthread::join;

use crate::mode::Mode;
use measure::report;
use spawned::{create, pingpong, sleepers, spawn_join, yields};

/// A measurement of `uthread-bench own`, which the studies run in a process of its own.
#[derive(clap::Subcommand)]
pub(crate) enum Measured {
    Spawn {
        count: usize,
    },
    Yield {
        fibers: usize,
        count: usize,
    },
    Create {
        count: usize,
    },
    Sleepers {
        count: usize,
    },
    Pingpong {
        workers: usize,
        count: usize,
    },
    Fib {
        workers: usize,
    },
    Sort {
        workers: usize,
        count: usize,
    },
    Fixed {
        port: u16,
        workers: usize,
    },
    Echo {
        port: u16,
        workers: usize,
        compute_us: u64,
        #[command(flatten)]
        ways: echo::Ways,
    },
    Requests {
        #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        fibers: u32,
        requests: u32,
    },
    Disk(disk::Reads),
}

pub(crate) fn run(mode: Mode, measured: &Measured) -> Result<()> {
    let runtime = |workers| mode.runtime(workers);
    match *measured {
        Measured::Spawn { count } => report([runtime(1)?.run(|| spawn_join(count))]),
        Measured::Yield { fibers, count } => report([runtime(1)?.run(|| yields(fibers, count))]),
        Measured::Create { count } => report(runtime(1)?.run(|| create(count))),
        Measured::Fib { workers } => report([runtime(workers)?.run(forks::fib_38)]),
        Measured::Sort { workers, count } => report([runtime(workers)?.run(|| forks::sort(count))]),
        Measured::Sleepers { count } => report([runtime(2)?.run(|| sleepers(count))]),
        Measured::Pingpong { workers, count } => {
            report([runtime(workers)?.run(|| pingpong(count))]);
        }
        Measured::Fixed { port, workers } => return fixed::serve(port, runtime(workers)?),
        Measured::Echo {
            port,
            workers,
            compute_us,
            ways,
        } => echo::serve(port, runtime(workers)?, compute_us, ways)?,
        Measured::Requests { fibers, requests } => {
            requests::perform(&runtime(1)?, fibers, requests)?;
        }
        Measured::Disk(ref reads) => reads.run(&runtime(1)?)?,
    }
    Ok(())
}
