//! Builds the runtimes of the benchmarks.

use std::time::Duration;

use anyhow::{Result, ensure};
use uthread::runtime::{Builder, Driver, Runtime};

/// Time for which a thread of the kernel polls before it sleeps: longer than a server waits under
/// load.
const POLLING_IDLE: Duration = Duration::from_millis(2);

#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct Mode {
    /// The driver [default: that of UTHREAD_DRIVER, else the best one available]
    #[arg(long, value_name = "uring|epoll|threads")]
    pub(crate) driver: Option<Driver>,
    /// Let fibers share the thread-local storage of their worker
    #[arg(long)]
    pub(crate) lean: bool,
    /// Let a thread of the kernel take the operations of each ring
    #[arg(long)]
    pub(crate) polling: bool,
}

impl Mode {
    fn apply(self, mut builder: Builder) -> Builder {
        if let Some(driver) = self.driver {
            builder = builder.driver(driver);
        }
        if self.polling {
            builder = builder.kernel_polling(POLLING_IDLE);
        }
        if self.lean {
            builder = builder.lean();
        }
        builder
    }

    /// Builds the runtime, or fails if the kernel does not poll although it should.
    pub(crate) fn runtime(self, workers: usize) -> Result<Runtime> {
        self.start(Runtime::builder().workers(workers))
    }

    /// Builds like [`runtime`](Mode::runtime) with these settings.
    pub(crate) fn start(self, builder: Builder) -> Result<Runtime> {
        let runtime = self.apply(builder).build()?;
        let driver = runtime.driver();
        ensure!(
            !self.polling || driver.details().starts_with("kernel polling"),
            "the kernel does not poll: {driver}"
        );
        Ok(runtime)
    }
}
