//! The runtime of the process, which the first thread that is created starts.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, io, process, thread};

use uthread::Runtime;

use crate::stalls;

/// The variable of the environment that sets the number of workers.
const VARIABLE: &str = "UTHREAD_WORKERS";

/// The maximum of a runtime. What a program asks for is a hint, so more is not refused.
const WORKERS_MAX: usize = 1024;

/// The number of workers that the program has asked for before they run, or zero for the default.
static WORKERS: AtomicUsize = AtomicUsize::new(0);

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

#[derive(Clone, Copy)]
struct Running {
    runtime: &'static Runtime,
    /// The process that has started it: a child made by `fork` has none of its workers.
    process: u32,
    default_workers: usize,
}

/// Returns the runtime of the process.
///
/// # Errors
///
/// `InvalidInput` if the variable has no number of workers; `ENOTSUP` if fibers are lean, so that they
/// are no threads to code in C; the errors of [`uthread::runtime::Builder::build`].
pub(crate) fn runtime() -> io::Result<&'static Runtime> {
    let mut running = lock();
    if let Some(running) = present(*running) {
        return Ok(running.runtime);
    }
    let default_workers = default_workers()?;
    let workers = match WORKERS.load(Ordering::Relaxed) {
        0 => default_workers,
        workers => workers,
    };
    let runtime = Runtime::builder()
        .on_stall(stalls::print)
        .workers(workers)
        // The program may ask for others later.
        .max_workers(workers.max(default_workers))
        .build()?;
    if runtime.is_lean() {
        return Err(io::Error::from_raw_os_error(libc::ENOTSUP));
    }
    // It lives as long as the process, as the default runtime of a program in Rust.
    let runtime = Box::leak(Box::new(runtime));
    *running = Some(Running {
        runtime,
        process: process::id(),
        default_workers,
    });
    Ok(runtime)
}

/// Returns the runtime, if a thread was created in this process. `None` also while one is created.
pub fn running() -> Option<&'static Runtime> {
    let running = RUNNING.try_lock().ok()?;
    Some(present(*running)?.runtime)
}

/// Returns the number of workers by the environment, or that of the CPUs.
fn default_workers() -> io::Result<usize> {
    let cpus = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let by_variable = match env::var(VARIABLE) {
        Ok(text) => text.parse().map_err(|_| io::ErrorKind::InvalidInput)?,
        Err(_) => 0,
    };
    Ok(if by_variable == 0 {
        cpus()
    } else {
        by_variable
    })
}

/// Sets the number of workers, zero for the default. If they run already, sets at most as many as
/// the runtime can have.
///
/// # Errors
///
/// The errors of [`Runtime::set_workers`] for a number within its limits.
pub(crate) fn set_workers(workers: usize) -> io::Result<()> {
    let running = lock();
    let Some(Running {
        runtime,
        default_workers,
        ..
    }) = present(*running)
    else {
        WORKERS.store(workers.min(WORKERS_MAX), Ordering::Relaxed);
        return Ok(());
    };
    let workers = if workers == 0 {
        default_workers
    } else {
        workers
    };
    runtime.set_workers(workers.min(runtime.max_workers()))
}

/// Returns the number of workers that run fibers, or that will.
pub(crate) fn count_workers() -> usize {
    let running = lock();
    present(*running).map_or_else(
        || WORKERS.load(Ordering::Relaxed),
        |running| running.runtime.workers(),
    )
}

fn lock() -> MutexGuard<'static, Option<Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what runs, unless that was in the parent of this process.
fn present(running: Option<Running>) -> Option<Running> {
    running.filter(|running| running.process == process::id())
}
