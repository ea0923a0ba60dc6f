//! The peer on uthread: `dev/bench/peers/README.md` describes the commands.

mod counter;
mod echo;
mod fixed;
#[path = "../../forks.rs"]
mod forks;
#[path = "../../measure.rs"]
mod measure;
mod mode;
#[path = "../../page.rs"]
mod page;
mod service;
#[path = "../../spawned.rs"]
mod spawned;
#[path = "../../stack.rs"]
mod stack;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use uthread as threads;
use uthread::join;

use measure::report;
use mode::Mode;
use spawned::{create, memory, pingpong, sleepers, spawn_join, yields};

/// Run one of the small programs of the benchmarks
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    mode: Mode,
    #[command(subcommand)]
    measured: Measured,
}

#[derive(clap::Subcommand)]
enum Measured {
    /// Increment one counter together
    Counter(counter::Counter),
    /// Echo messages
    Echo(echo::Echo),
    /// Find text in files
    #[command(args_override_self = true)]
    Search(Box<uthread_search::Options>),
    /// The other commands, with their numbers
    #[command(external_subcommand)]
    Other(Vec<String>),
}

fn main() -> ExitCode {
    let Arguments { mode, measured } = Arguments::parse();
    let Err(error) = run(mode, &measured) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("uthread-peer: {error:#}");
    ExitCode::FAILURE
}

fn run(mode: Mode, measured: &Measured) -> Result<()> {
    let runtime = |workers| mode.runtime(workers);
    let words = match measured {
        Measured::Counter(counter) => {
            let runtime = match counter.workers {
                0 => None,
                workers => Some(runtime(workers)?),
            };
            report([counter.measure(runtime.as_ref())?]);
            return Ok(());
        }
        Measured::Echo(echo) => return echo.serve(runtime(echo.workers)?),
        Measured::Search(options) => {
            uthread_search::run_on(options, |builder| mode.start(builder))?;
            return Ok(());
        }
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
        ("memory", &[count, kib]) => runtime(1)?.run(|| memory(count, kib, false, stage)),
        ("memory-held", &[count, kib]) => runtime(1)?.run(|| memory(count, kib, true, stage)),
        ("pingpong", &[workers, count]) => report([runtime(workers)?.run(|| pingpong(count))]),
        ("service", &[port, workers]) => {
            return service::serve(port.try_into()?, runtime(workers)?);
        }
        ("fixed", &[port, workers]) => return fixed::serve(port.try_into()?, runtime(workers)?),
        (command, numbers) => bail!("no command {command} with the numbers {numbers:?}"),
    }
    Ok(())
}

/// Waits on another thread, so that the worker is idle meanwhile.
fn stage(name: &'static str) {
    uthread::blocking(|| stack::stage(name));
}
