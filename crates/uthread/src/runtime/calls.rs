//! The pool for blocking calls of the program.

use std::time::Duration;

use super::Builder;

impl Builder {
    /// Sets the maximum number of threads that run calls passed to [`blocking`](crate::blocking).
    /// Further calls are queued. Default: 512.
    ///
    /// A thread starts when a call finds none idle. The calls of this crate that need a thread,
    /// such as those on files with the epoll driver and the resolution of names, have other
    /// threads.
    ///
    /// The queue has no limit of its own, as each caller waits for its call. Take a permit of a
    /// [`Semaphore`](crate::sync::Semaphore) by `try_acquire` to refuse work instead.
    /// [`Metrics::blocking`](crate::runtime::Metrics::blocking) has the length of the queue and how
    /// long calls have waited.
    ///
    /// No effect on fibers with thread-local storage of their own, which make such calls themselves:
    /// only on [lean](Builder::lean) ones.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = uthread::Runtime::builder()
    ///     .lean()
    ///     .blocking_threads(2)
    ///     .blocking_keep_alive(Duration::from_secs(1))
    ///     .build()?;
    /// runtime.run(|| {
    ///     uthread::scope(|scope| {
    ///         for _ in 0..10 {
    ///             scope.spawn(|| uthread::blocking(|| std::thread::sleep(Duration::from_millis(1))));
    ///         }
    ///     });
    /// });
    /// let metrics = runtime.metrics().blocking;
    /// assert_eq!(metrics.calls, 10);
    /// assert!(metrics.threads <= 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn blocking_threads(mut self, threads: usize) -> Builder {
        self.calls.threads_max = threads;
        self
    }

    /// Sets how long an idle thread for [`blocking`](crate::blocking) calls waits for another call
    /// before it ends. Default: 10 s. See the example of
    /// [`blocking_threads`](Builder::blocking_threads).
    #[must_use]
    pub fn blocking_keep_alive(mut self, time: Duration) -> Builder {
        self.calls.keep_alive = time;
        self
    }
}
