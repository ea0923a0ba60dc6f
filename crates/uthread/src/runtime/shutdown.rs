//! Ending a runtime while the program goes on.

use std::mem;
use std::thread;

use super::{Backend, Runtime, Workers};
use crate::forked;
use crate::sched::caller;
use crate::sched::features::{dedicated, offload};
use crate::sched::shared::abandonment::Abandonment;

/// How [`Runtime::shutdown`] treats the remaining fibers.
///
/// | | remaining fibers | returns | their destructors |
/// | --- | --- | --- | --- |
/// | `Cancel`, and dropping the runtime | are [cancelled](crate::guide::cancellation) | when all have ended | run |
/// | `Join` | continue | when all have ended by themselves | run |
/// | `Abandon` | stop at their next call that may wait, and are never resumed | at once | never run |
///
/// The end of a program with [`#[uthread::main]`](macro@crate::main) is none of these: its fibers
/// vanish with the process.
///
/// ```
/// use std::time::Duration;
/// use uthread::runtime::Shutdown;
/// use uthread::{Runtime, sleep};
///
/// let runtime = Runtime::new()?;
/// let fiber = runtime.spawn(|| {
///     sleep(Duration::from_millis(2));
///     "done"
/// });
/// runtime.shutdown(Shutdown::Join);
/// assert!(fiber.is_finished());
/// assert_eq!(fiber.join().unwrap(), "done");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shutdown {
    /// Cancels the fibers and waits until they have ended, as dropping the runtime does.
    ///
    /// ```
    /// use uthread::thread::{Cancelled, park};
    /// use uthread::runtime::{Runtime, Shutdown};
    ///
    /// let runtime = Runtime::new()?;
    /// let fiber = runtime.spawn(park);
    /// runtime.shutdown(Shutdown::Cancel);
    /// assert!(fiber.join().unwrap_err().is::<Cancelled>());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    Cancel,
    /// Waits until the fibers, and those that they spawn, have ended by themselves. If one never
    /// ends, this waits forever. See the example of [`Shutdown`].
    Join,
    /// Leaves the fibers where they are, without waiting for them.
    ///
    /// A fiber stops at its next call that may wait, or in its current one, also within a
    /// [`shield`](crate::shield) and while it unwinds. It is never resumed; a fiber that has not
    /// started never runs. Nothing is unwound or dropped: the memory of the stacks, the values that
    /// the fibers own and the locks that they hold remain until the process ends. With
    /// [`Driver::Threads`](crate::Driver::Threads), and of
    /// [dedicated](crate::thread::Builder::dedicated) fibers, the threads remain, too.
    ///
    /// Their operations in the kernel are cancelled. Joining such a fiber returns
    /// [`Cancelled`](crate::thread::Cancelled) once the last fiber of the runtime has stopped and
    /// none of their calls runs on another thread. A scope outside this runtime that waits for one
    /// of these fibers never ends, as the fiber may still use its borrows.
    ///
    /// ```
    /// use uthread::thread::{Cancelled, park};
    /// use uthread::runtime::{Runtime, Shutdown};
    ///
    /// struct Prints;
    ///
    /// impl Drop for Prints {
    ///     fn drop(&mut self) {
    ///         unreachable!("the fiber is leaked");
    ///     }
    /// }
    ///
    /// let runtime = Runtime::new()?;
    /// let fiber = runtime.spawn(|| {
    ///     let _prints = Prints;
    ///     loop {
    ///         park();
    ///     }
    /// });
    /// runtime.shutdown(Shutdown::Abandon);
    /// assert!(fiber.join().unwrap_err().is::<Cancelled>());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    Abandon,
}

impl Runtime {
    /// Ends the runtime, treating its remaining fibers as `how` says.
    ///
    /// If a fiber of this runtime calls it, or a thread in a [`blocking`](crate::blocking()) call
    /// of such a fiber, it does not wait for that fiber: `Join` returns at once, and `Cancel`
    /// behaves like a [drop](Runtime#dropping).
    ///
    /// ```
    /// let runtime = uthread::Runtime::new()?;
    /// runtime.spawn(|| uthread::fs::write("/dev/null", "written"));
    /// runtime.shutdown(uthread::runtime::Shutdown::Join);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown(mut self, how: Shutdown) {
        if !self.is_of_this_process() {
            return;
        }
        match (&mut self.backend, how) {
            (_, Shutdown::Cancel) => {}
            (Backend::Workers(workers), Shutdown::Join) => workers.join(),
            (Backend::Workers(workers), Shutdown::Abandon) => workers.abandon(),
            (Backend::Threads(threads), Shutdown::Join) => {
                offload::run(|| threads.join());
            }
            (Backend::Threads(threads), Shutdown::Abandon) => threads.abandon(Abandonment::Quiet),
        }
    }
}

impl Workers {
    fn join(&mut self) {
        self.shared.join();
        if offload::worker_of_caller(&self.shared).is_some()
            || dedicated::is_caller_of(&self.shared)
        {
            return self.detach();
        }
        self.join_threads();
    }

    fn abandon(&mut self) {
        self.shared.abandon(Abandonment::Quiet);
        self.shared.shut_down();
        self.shared.notifier.stop();
        self.detach();
    }

    /// Detaches the threads, which end by themselves.
    fn detach(&mut self) {
        self.threads.clear();
        self.monitor = None;
    }

    /// Joins the threads, except those that cannot end before the caller does.
    fn join_threads(&mut self) {
        if dedicated::is_caller_of(&self.shared) {
            return self.detach();
        }
        let mut threads = mem::take(&mut self.threads);
        // The caller runs for a fiber of this runtime, whose worker ends later.
        let own = offload::worker_of_caller(&self.shared);
        if let Some(own) = own {
            if self.shared.spares.may_be() {
                // The threads end together. The last worker stops the monitor.
                return self.detach();
            }
            drop(threads.remove(own));
        }
        let monitor = self.monitor.take();
        let end = || {
            threads.into_iter().for_each(join);
            loop {
                let spares = self.shared.spares.take_threads();
                if spares.is_empty() {
                    break;
                }
                spares.into_iter().for_each(join);
            }
            // A dedicated fiber may wait for the caller if that is a fiber of this runtime.
            if own.is_none() {
                self.shared.end_dedicated();
            }
            // Stopped last: a fiber that delays the end of the runtime is a stall too.
            if let Some(monitor) = monitor {
                self.shared.notifier.stop_thread(monitor.thread());
                // The function that receives stall reports may drop the runtime on this very
                // thread.
                if monitor.thread().id() != thread::current().id() {
                    join(monitor);
                }
            }
        };
        if caller::in_fiber() {
            // The worker must keep running meanwhile: other fibers may need its fibers to end.
            offload::run(end);
        } else {
            end();
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Backend::Threads(threads) = &self.backend
            && self.is_of_this_process()
        {
            offload::run(|| threads.end());
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if self.threads.is_empty() {
            return; // They end by themselves.
        }
        if forked::generation() != self.generation {
            // The threads are those of the parent process, where they go on.
            return mem::forget((mem::take(&mut self.threads), self.monitor.take()));
        }
        self.shared.shut_down();
        self.join_threads();
    }
}

fn join(thread: thread::JoinHandle<()>) {
    let joined = thread.join();
    debug_assert!(joined.is_ok(), "a failed worker aborts the process");
}
