//! Polling modes of the rings, which replace system calls and interrupts at the cost of CPU time.

use std::fmt::Write;
use std::time::Duration;

use super::{Builder, Driver};

impl Builder {
    /// Lets a kernel thread per worker fetch submitted operations (`IORING_SETUP_SQPOLL`). While it
    /// polls, a worker with other fibers to run makes no system call to submit operations or to
    /// collect their results.
    ///
    /// The thread polls while there are operations and for `idle` after that (rounded to whole
    /// milliseconds, at least one). Then it sleeps, and the next operation costs a system call to
    /// wake it. Each of these threads keeps a CPU busy while it polls: use at most half as many
    /// workers as there are CPUs, or the threads compete and everything gets slower. By default
    /// there is no such thread.
    ///
    /// The kernel threads keep the user and the groups that the process has when the runtime is
    /// built: after `setuid(2)`, this runtime still opens files with the former rights. Drop
    /// privileges before you build it.
    ///
    /// Only the io_uring driver supports this; the setting has no effect on others. If the kernel
    /// refuses such a ring, the runtime uses an ordinary one.
    /// [`DriverInfo::details`](crate::runtime::DriverInfo::details) reports both cases.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let builder = uthread::Runtime::builder().workers(1);
    /// let runtime = builder.kernel_polling(Duration::from_millis(2)).build()?;
    /// // Such as: uring (kernel polling for 2 ms, wake by ring message), the default
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

    /// Lets the workers poll the device for completed reads and writes of files opened for [direct
    /// I/O](crate::fs::OpenOptions::direct), instead of waiting for interrupts
    /// (`IORING_SETUP_IOPOLL`).
    ///
    /// This saves some microseconds on a fast disk. A worker does not sleep while such an operation
    /// is in flight, however long that takes. By default nothing is polled.
    ///
    /// The device needs polling queues: its `/sys/block/*/queue/io_poll` must be 1, for NVMe by the
    /// module parameter `poll_queues`. Any other device refuses the first operation on each file;
    /// the operations on that file then use interrupts. Only files opened by this crate are polled.
    ///
    /// Only the io_uring driver supports this; the setting has no effect on others. If the kernel
    /// refuses such a ring, it is not used.
    /// [`DriverInfo::details`](crate::runtime::DriverInfo::details) reports both cases.
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

    /// Appends to the details of a driver what was requested of rings but that it does not support.
    pub(super) fn with_ring_options(&self, driver: Driver, mut details: String) -> String {
        let kernel = ("kernel polling", self.rings.kernel_polling.is_some());
        let polling = ("I/O polling", self.rings.io_polling);
        let workers = (
            "limit of kernel workers",
            self.rings.kernel_workers.is_some(),
        );
        for (what, is_asked_for) in [kernel, polling, workers] {
            if is_asked_for && !driver.has_ring() {
                let _ = write!(details, ", no {what}, which requires io_uring");
            }
        }
        details
    }
}
