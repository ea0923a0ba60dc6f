//! Starts the runtime of a server from its command-line options.

use std::time::Duration;

use anyhow::Context;
use uthread::Runtime;
use uthread::runtime::Builder;

use crate::args::ServerArgs;
use crate::output::tell;

/// Interval of the samples of the scheduling delay: some 1,500 between two readings of Prometheus,
/// for a thousandth of a CPU.
const DELAY_INTERVAL: Duration = Duration::from_millis(10);

/// Starts the workers, by default one per CPU. Their scheduling delays are sampled if `counted`.
pub(crate) fn start(args: &ServerArgs, counted: bool) -> anyhow::Result<Runtime> {
    build(args, counted, Runtime::builder())
}

/// Starts the workers as [`start`] does, for lean fibers.
pub(crate) fn start_lean(args: &ServerArgs, counted: bool) -> anyhow::Result<Runtime> {
    build(args, counted, Runtime::builder().lean())
}

fn build(args: &ServerArgs, counted: bool, builder: Builder) -> anyhow::Result<Runtime> {
    // A warning of a stall speaks to programmers. Users of a loaded server have its counter.
    let mut builder = builder.on_stall(|_| ());
    if counted {
        builder = builder.sample_delays(DELAY_INTERVAL);
    }
    if let Some(workers) = args.workers {
        builder = builder.workers(workers.get());
    }
    if let Some(driver) = args.driver {
        builder = builder.driver(driver);
    }
    let runtime = builder.build().context("cannot start the workers")?;
    if args.verbose {
        tell(format_args!("driver: {}", runtime.driver()));
    }
    Ok(runtime)
}
