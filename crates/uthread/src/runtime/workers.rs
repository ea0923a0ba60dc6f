//! How many workers a runtime has, and how many of them run fibers.

use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::{io, thread};

use super::{Backend, Runtime};

/// A larger number of workers than any machine has CPUs is a mistake in the argument.
const WORKERS_MAX: usize = 1024;

pub(super) const fn is_count_of_workers(count: usize) -> bool {
    1 <= count && count <= WORKERS_MAX
}

/// The numbers of workers of a runtime at its start.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub(super) active: usize,
    pub(super) max: usize,
}

impl Counts {
    /// Validates the settings of a runtime.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if there can be no such numbers of workers.
    pub(super) fn new(workers: Option<usize>, max_workers: Option<usize>) -> io::Result<Counts> {
        let cpus = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let active = workers.unwrap_or_else(|| cpus().min(max_workers.unwrap_or(WORKERS_MAX)));
        let max = max_workers.unwrap_or(active);
        if !is_count_of_workers(max) {
            return Err(refused(format!(
                "{max} workers: choose from 1 to {WORKERS_MAX}"
            )));
        }
        check(active, max)?;
        Ok(Counts { active, max })
    }
}

impl Runtime {
    /// Returns the number of workers that run fibers. With [`Driver::Threads`], which has no
    /// workers, returns the number that another driver would have. See the example of
    /// [`set_workers`](Runtime::set_workers).
    ///
    /// [`Driver::Threads`]: crate::Driver::Threads
    #[must_use]
    pub fn workers(&self) -> usize {
        match &self.backend {
            Backend::Workers(workers) => workers.shared.active_workers(),
            // Relaxed: nothing depends on it.
            Backend::Threads(_) => self.nominal_workers.load(Ordering::Relaxed),
        }
    }

    /// Returns the maximum for [`set_workers`](Runtime::set_workers). See the example of
    /// [`Builder::max_workers`](crate::runtime::Builder::max_workers).
    #[must_use]
    pub fn max_workers(&self) -> usize {
        self.max_workers
    }

    /// Changes the number of workers that run fibers. Any fiber or thread may call it at any time;
    /// it does not wait.
    ///
    /// The other workers, up to the [maximum](crate::runtime::Builder::max_workers), sleep. A worker
    /// that is to sleep finishes its batch of turns first. Its fibers then go to the other workers,
    /// each as soon as it is ready; the operations that they have started end where they are. A
    /// fiber that computes is not interrupted. Fibers that cannot change their worker stay, and go
    /// on running there: [lean](crate::runtime::Builder::lean) ones that have started, and others
    /// while they panic.
    ///
    /// The number bounds the CPUs that fibers use, apart from those that stay, and from fibers that
    /// [block their thread or compute](crate::guide::blocking) while their worker goes on. It has no
    /// effect on [dedicated](crate::thread::Builder::dedicated) fibers, nor with
    /// [`Driver::Threads`](crate::Driver::Threads).
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the number is zero or more than the maximum; `Unsupported` in a forked
    /// child if the runtime belongs to its parent.
    ///
    /// ```
    /// let runtime = uthread::Runtime::builder().workers(4).build()?;
    /// runtime.set_workers(1)?; // Leaves the other CPUs to something else,
    /// assert_eq!(runtime.run(|| runtime.workers()), 1);
    /// runtime.run(|| runtime.set_workers(4))?; // and takes them back.
    /// let error = runtime.set_workers(5).unwrap_err();
    /// assert_eq!(error.to_string(), "5 workers: choose from 1 to 4, the maximum");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_workers(&self, count: usize) -> io::Result<()> {
        check(count, self.max_workers)?;
        if !self.is_of_this_process() {
            let what = "this runtime belongs to the parent of this process";
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        match &self.backend {
            Backend::Workers(workers) => workers.shared.set_active_workers(count),
            Backend::Threads(_) => self.nominal_workers.store(count, Ordering::Relaxed),
        }
        Ok(())
    }
}

fn check(active: usize, max: usize) -> io::Result<()> {
    if active == 0 || active > max {
        return Err(refused(format!(
            "{active} workers: choose from 1 to {max}, the maximum"
        )));
    }
    Ok(())
}

fn refused(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
