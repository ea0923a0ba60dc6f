//! Where the program meets the runtime: the workers are started here, and only here.

use std::num::NonZeroUsize;

use anyhow::Context;
use uthread::Runtime;

/// Starts this many workers; one per CPU unless the user says otherwise.
pub(crate) fn start(workers: Option<NonZeroUsize>) -> anyhow::Result<Runtime> {
    let builder = match workers {
        Some(workers) => Runtime::builder().workers(workers.get()),
        None => Runtime::builder(),
    };
    builder.build().context("cannot start the workers")
}
