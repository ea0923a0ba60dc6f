//! Polling in place of calls and interrupts: what of it a runtime's rings do, on request, as it takes processor time.

use std::time::Duration;

use super::{Builder, Driver};

impl Builder {
    /// Has a thread of the kernel take the operations of each worker (`IORING_SETUP_SQPOLL`): while it polls, a worker that has
    /// other fibers to run enters the kernel neither to hand operations over nor to get their results. It polls for
    /// as long as there is something to do and for `idle` beyond (whole milliseconds, at least one); then it sleeps,
    /// and the next operation costs the call that wakes it.
    ///
    /// Each worker has such a thread, which keeps a processor busy while it polls: choose at most half as many
    /// workers as there are processors, else the two take turns and all gets slower. By default there is none.
    ///
    /// It takes io_uring: on another driver this has no effect. Where the kernel refuses such a ring, the runtime has an
    /// ordinary one; both is told by [`DriverInfo::details`](crate::DriverInfo::details).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let builder = uthread::Runtime::builder().workers(1);
    /// let runtime = builder.kernel_polling(Duration::from_millis(2)).build()?;
    /// // Such as: uring (kernel polling for 2 ms, wake by ring message), the best there is
    /// eprintln!("{}", runtime.driver());
    /// assert!(runtime.driver().details().contains("kernel polling"));
    /// assert!(runtime.run(|| uthread::fs::read("Cargo.toml"))?.starts_with(b"[package]"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn kernel_polling(mut self, idle: Duration) -> Builder {
        self.rings.kernel_polling = Some(idle);
        self
    }

    /// Adds to the details of a driver what was asked for in vain.
    pub(super) fn with_polling(&self, driver: Driver, details: String) -> String {
        match driver {
            Driver::Epoll | Driver::Threads if self.rings.kernel_polling.is_some() => {
                format!("{details}, no kernel polling, which takes io_uring")
            }
            _ => details,
        }
    }
}
