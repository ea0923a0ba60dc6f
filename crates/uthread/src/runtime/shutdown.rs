//! How a runtime ends in the midst of a program.

use std::mem;
use std::thread;

use super::{Backend, Runtime, Workers};
use crate::forked;
use crate::sched::shared::Abandonment;
use crate::sched::{offload, wait};

/// What [`Runtime::shutdown`] does with the fibers that are left.
///
/// | | fibers that are left | returns | their destructors |
/// | --- | --- | --- | --- |
/// | `Cancel`, and the drop of a runtime | are [cancelled](crate::guide::cancellation) | when all have ended | run |
/// | `Join` | go on | when all have ended by themselves | run |
/// | `Abandon` | stop at their next call that may wait, and are never resumed | at once | never run |
///
/// The end of a program with [`#[uthread::main]`](macro@crate::main) is none of these: there fibers vanish with the process.
///
/// ```
/// use std::time::Duration;
/// use uthread::{Runtime, Shutdown, sleep};
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
    /// Cancels them, and waits until they have ended: what the drop of a runtime does.
    ///
    /// ```
    /// use uthread::thread::{Cancelled, park};
    /// use uthread::{Runtime, Shutdown};
    ///
    /// let runtime = Runtime::new()?;
    /// let fiber = runtime.spawn(park);
    /// runtime.shutdown(Shutdown::Cancel);
    /// assert!(fiber.join().unwrap_err().is::<Cancelled>());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    Cancel,
    /// Waits until they have ended by themselves, and those that they spawn: for ever, if one does not. See the example of
    /// [`Shutdown`].
    Join,
    /// Leaves them where they are, without waiting for that. Each stops at its next call that may wait, or in the present
    /// one, also within a [`shield`](crate::shield) and while it unwinds, and is never resumed; one that has not started never
    /// does. Nothing of theirs is unwound or dropped. The memory of their stacks, what they own and what they
    /// have locked stays as it is until the process ends. Under [`Driver::Threads`](crate::Driver::Threads) the
    /// threads stay, too.
    ///
    /// What they wait for from the kernel is cancelled. Who joins one gets [`Cancelled`](crate::thread::Cancelled),
    /// once the last fiber of the runtime has stopped, and no call of theirs runs on another thread any more. The end of a scope
    /// that waits for one of them, from a fiber of another runtime or from a thread, never comes: they may have what it lent.
    ///
    /// ```
    /// use uthread::thread::{Cancelled, park};
    /// use uthread::{Runtime, Shutdown};
    ///
    /// struct Prints;
    ///
    /// impl Drop for Prints {
    ///     fn drop(&mut self) {
    ///         unreachable!("it is leaked");
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
    /// Ends the runtime in this way.
    ///
    /// Called by a fiber of this runtime, or on another thread in a [`blocking`](crate::blocking()) call of such a fiber, it does
    /// not wait for that one: `Join` returns at once then, `Cancel` as a [drop](Runtime#dropping) does.
    ///
    /// ```
    /// let runtime = uthread::Runtime::new()?;
    /// runtime.spawn(|| uthread::fs::write("/dev/null", "written"));
    /// runtime.shutdown(uthread::Shutdown::Join);
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
        if offload::worker_of_caller(&self.shared).is_some() {
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

    /// Lets its threads end by themselves.
    fn detach(&mut self) {
        self.threads.clear();
        self.monitor = None;
    }

    /// Waits for the threads that this one may wait for.
    fn join_threads(&mut self) {
        let mut threads = mem::take(&mut self.threads);
        // What runs for a fiber of this runtime cannot outlive that one: its worker ends later.
        if let Some(own) = offload::worker_of_caller(&self.shared) {
            match self.shared.is_migrating() {
                // Any worker may have to go on with the caller.
                true => threads.clear(),
                false => drop(threads.remove(own)),
            }
        }
        let monitor = self.monitor.take();
        let end = || {
            threads.into_iter().for_each(join);
            // Last: what keeps a runtime from its end is a stall too.
            if let Some(monitor) = monitor {
                self.shared.notifier.stop_thread(monitor.thread());
                // A report of a stall may drop the runtime, on this very thread.
                if monitor.thread().id() != thread::current().id() {
                    join(monitor);
                }
            }
        };
        if wait::in_fiber() {
            // The worker must go on meanwhile: others' fibers may need its own to end.
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
            // Its threads are in the parent, where it goes on.
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
