//! Polling in place of calls and interrupts: what of it a runtime's rings do, on request, as it takes processor time.

use std::fmt::Write;
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

    /// Has the workers poll the device for the completions of reads and writes of files that were opened
    /// [past the page cache](crate::fs::OpenOptions::direct) (`IORING_SETUP_IOPOLL`), in place of interrupts: sooner by some
    /// microseconds on a fast disk. A worker does not sleep while it has such an operation under way, whatever that
    /// takes. By default nothing is polled.
    ///
    /// It takes a device with queues for it: one whose `/sys/block/*/queue/io_poll` is 1, as of NVMe with the module's
    /// parameter `poll_queues`. Any other refuses the first operation on each file, which goes by interrupts then, and so
    /// do the later ones. Only files that are opened by this crate are polled for.
    ///
    /// It takes io_uring: on another driver this has no effect. Where the kernel refuses such a ring, there is none;
    /// both is told by [`DriverInfo::details`](crate::DriverInfo::details).
    ///
    /// ```
    /// use std::os::unix::fs::FileExt;
    /// use uthread::fs::{AlignedBuffer, OpenOptions};
    ///
    /// let runtime = uthread::Runtime::builder().workers(1).io_polling().build()?;
    /// assert!(runtime.driver().details().contains("I/O polling"));
    /// runtime.run(|| {
    ///     let Ok(file) = OpenOptions::new().read(true).direct(true).open("Cargo.toml") else {
    ///         return Ok(()); // The file system has no such thing.
    ///     };
    ///     let Ok(mut buffer) = AlignedBuffer::for_file(&file, 4096) else {
    ///         return Ok(()); // It has, and uses the page cache.
    ///     };
    ///     file.read_at(&mut buffer, 0)?;
    ///     assert!(buffer.starts_with(b"[package]"));
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn io_polling(mut self) -> Builder {
        self.rings.io_polling = true;
        self
    }

    /// Adds to the details of a driver what was asked for in vain.
    pub(super) fn with_polling(&self, driver: Driver, mut details: String) -> String {
        let kernel = ("kernel polling", self.rings.kernel_polling.is_some());
        for (what, is_asked_for) in [kernel, ("I/O polling", self.rings.io_polling)] {
            if is_asked_for && driver != Driver::Uring {
                let _ = write!(details, ", no {what}, which takes io_uring");
            }
        }
        details
    }
}
