//! Starts the runtime of a server from its command-line options.

use anyhow::Context;
use uthread::Runtime;

use crate::args::ServerArgs;
use crate::output::tell;

/// Starts the workers, by default one per CPU.
pub(crate) fn start(args: &ServerArgs) -> anyhow::Result<Runtime> {
    let mut builder = Runtime::builder();
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
