//! Whether the fibers of our own programs stay or migrate: the one place that promises what the second
//! takes.

use uthread::{Builder, Runtime};

#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Mode {
    /// Let fibers migrate to idle workers
    #[arg(long)]
    pub(crate) migrating: bool,
}

impl Mode {
    #[allow(unsafe_code, reason = "the promise by which fibers migrate")]
    pub(crate) fn builder(self) -> Builder {
        let builder = Runtime::builder();
        match self.migrating {
            false => builder,
            // SAFETY: what these programs run in fibers keeps no lock, no thread-local and nothing else
            // that belongs to a thread across a call that suspends.
            true => unsafe { builder.migrating() },
        }
    }
}
