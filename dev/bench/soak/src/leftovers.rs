//! The resources of a process: descriptors, threads, memory. After each epoch they must be the same
//! as after the first.

use std::time::{Duration, Instant};
use std::{io, thread};

/// The beginnings of the names of threads that make calls for fibers: they outlive a runtime, and
/// end when idle.
const CALL_THREADS: [&str; 3] = ["uthread-call", "uthread-file", "uthread-wait"];

/// Time for the kernel to release what a joined thread or a closed ring held.
const PATIENCE: Duration = Duration::from_secs(5);

/// Mappings more than at first that are no leak: heaps of threads, and parts of slabs.
const MAPPINGS_GROWTH_MAX: usize = 64;

/// Address space more than at first that is no leak: heaps of threads, which are reserved in pieces
/// of 64 MiB. A runtime's stacks that stay behind take at least 16 MiB each epoch.
const ADDRESSES_GROWTH_MAX_MIB: usize = 512;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Holdings {
    pub(crate) fds: usize,
    pub(crate) threads: usize,
    pub(crate) mappings: usize,
    pub(crate) resident_mib: usize,
    pub(crate) addresses_mib: usize,
}

impl Holdings {
    fn read() -> io::Result<Holdings> {
        let own = procfs::process::Process::myself().map_err(io::Error::other)?;
        let pages = own.statm().map_err(io::Error::other)?;
        let mib = |pages: u64| (pages * procfs::page_size()) as usize >> 20;
        Ok(Holdings {
            fds: own.fd_count().map_err(io::Error::other)?,
            threads: count_threads(&own)?,
            mappings: own.maps().map_err(io::Error::other)?.len(),
            resident_mib: mib(pages.resident),
            addresses_mib: mib(pages.size),
        })
    }

    /// Returns the resources once they agree with those `before`, if given; otherwise the remaining
    /// ones, and how to report them.
    pub(crate) fn settled(
        before: Option<Holdings>,
        growth_mib_max: usize,
    ) -> io::Result<Result<Holdings, (Holdings, String)>> {
        let begin = Instant::now();
        loop {
            let now = Holdings::read()?;
            let Some(before) = before else {
                return Ok(Ok(now));
            };
            if now.compares_with(&before, growth_mib_max) {
                return Ok(Ok(now));
            }
            if begin.elapsed() > PATIENCE {
                return Ok(Err((now, format!("left over: {now:?} after {before:?}"))));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn compares_with(&self, before: &Holdings, growth_mib_max: usize) -> bool {
        self.fds == before.fds
            && self.threads == before.threads
            && self.mappings <= before.mappings + MAPPINGS_GROWTH_MAX
            && self.resident_mib <= before.resident_mib + growth_mib_max
            && self.addresses_mib <= before.addresses_mib + ADDRESSES_GROWTH_MAX_MIB
    }
}

/// Counts the threads but those that make calls for fibers.
fn count_threads(process: &procfs::process::Process) -> io::Result<usize> {
    let is_counted = |name: &String| !CALL_THREADS.iter().any(|call| name.starts_with(call));
    let names = process.tasks().map_err(io::Error::other)?.flatten();
    // A thread that has just ended has no name.
    let names = names
        .filter_map(|task| task.stat().ok())
        .map(|stat| stat.comm);
    Ok(names.filter(is_counted).count())
}
