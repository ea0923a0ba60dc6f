//! How many threads the kernel may use for the operations of a ring.

use super::Builder;

impl Builder {
    /// Lets the kernel use at most `count` threads of its own per worker for operations on files that
    /// block it, such as `fsync(2)` and writes to some file systems, and as many for others
    /// (`IORING_REGISTER_IOWQ_MAX_WORKERS`). By default that is four per CPU for files, and nearly no limit for
    /// others.
    ///
    /// More of them pay where many fibers wait for a disk at once: 100 fibers that write 4 KiB and call
    /// `sync_data` took 0.63 of the time with 64 threads per worker, and 0.79 of the CPU time, on two CPUs and
    /// an ext4 on a virtual disk. Fewer bound the threads of a program that shares a machine of many CPUs.
    ///
    /// Only the io_uring driver supports this, from Linux 5.15 on; the setting has no effect on others.
    /// [`DriverInfo::details`](crate::runtime::DriverInfo::details) reports both cases.
    ///
    /// # Panics
    ///
    /// Panics if `count` is zero, which would leave the limit as it is.
    ///
    /// ```
    /// let runtime = uthread::Runtime::builder().workers(1).kernel_workers(64).build()?;
    /// // Such as: uring (deferred task work, at most 64 kernel workers, wake by ring message), the default
    /// assert!(runtime.driver().details().contains("kernel workers"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn kernel_workers(mut self, count: u32) -> Builder {
        assert!(count > 0, "no operation on a file would ever end");
        self.rings.kernel_workers = Some(count);
        self
    }
}
