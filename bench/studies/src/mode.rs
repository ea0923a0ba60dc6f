//! How the runtimes of our own programs are built: the one place that promises what migrating fibers take.

use std::time::Duration;

use anyhow::{Result, ensure};
use uthread::{Builder, Driver, Runtime};

/// For how long a thread of the kernel looks for operations before it sleeps: longer than a server waits under load.
const POLLING_IDLE: Duration = Duration::from_millis(2);

#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct Mode {
    /// By what calls reach the kernel [default: as UTHREAD_DRIVER says, else the best there is]
    #[arg(long, value_name = "uring|epoll|threads")]
    pub(crate) driver: Option<Driver>,
    /// Let fibers migrate to idle workers
    #[arg(long)]
    pub(crate) migrating: bool,
    /// Let a thread of the kernel take the operations of each ring
    #[arg(long)]
    pub(crate) polling: bool,
}

impl Mode {
    #[allow(unsafe_code, reason = "the promise by which fibers migrate")]
    pub(crate) fn builder(self) -> Builder {
        let mut builder = Runtime::builder();
        if let Some(driver) = self.driver {
            builder = builder.driver(driver);
        }
        if self.polling {
            builder = builder.kernel_polling(POLLING_IDLE);
        }
        match self.migrating {
            false => builder,
            // SAFETY: what these programs run in fibers keeps no lock, no thread-local and nothing else
            // that belongs to a thread across a call that suspends.
            true => unsafe { builder.migrating() },
        }
    }

    /// Not another mode than this: what is measured has to be what its name says.
    pub(crate) fn runtime(self, workers: usize) -> Result<Runtime> {
        let runtime = self.builder().workers(workers).build()?;
        let driver = runtime.driver();
        ensure!(
            !self.polling || driver.details().starts_with("kernel polling"),
            "the kernel does not poll: {driver}"
        );
        Ok(runtime)
    }
}
