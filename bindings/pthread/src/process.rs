//! The runtime of the process, which the first thread that is created starts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{env, io, process};

use uthread::Runtime;

use crate::stalls;

/// The variable of the environment that sets the number of workers.
const VARIABLE: &str = "UTHREAD_WORKERS";

/// The number of workers, or zero for as many as there are CPUs.
static WORKERS: AtomicUsize = AtomicUsize::new(0);

/// The runtime, and the process that has started it: a child made by `fork` has none of its workers.
static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// Returns the runtime of the process.
///
/// # Errors
///
/// `InvalidInput` if the variable has no number of workers; `ENOTSUP` if fibers are lean, so that they
/// are no threads to code in C; the errors of [`uthread::runtime::Builder::build`].
pub(crate) fn runtime() -> io::Result<&'static Runtime> {
    let mut running = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((process, runtime)) = *running
        && process == process::id()
    {
        return Ok(runtime);
    }
    let builder = Runtime::builder().on_stall(stalls::print);
    let builder = match workers()? {
        0 => builder,
        workers => builder.workers(workers),
    };
    let runtime = builder.build()?;
    if runtime.is_lean() {
        return Err(io::Error::from_raw_os_error(libc::ENOTSUP));
    }
    // It lives as long as the process, as the default runtime of a program in Rust.
    let runtime = Box::leak(Box::new(runtime));
    *running = Some((process::id(), runtime));
    Ok(runtime)
}

/// Returns the runtime, if a thread was created in this process. `None` also while one is created.
pub fn running() -> Option<&'static Runtime> {
    let running = RUNTIME.try_lock().ok()?;
    let (process, runtime) = (*running)?;
    (process == process::id()).then_some(runtime)
}

fn workers() -> io::Result<usize> {
    let workers = WORKERS.load(Ordering::Relaxed);
    match env::var(VARIABLE) {
        Ok(text) if workers == 0 => text.parse().map_err(|_| io::ErrorKind::InvalidInput.into()),
        _ => Ok(workers),
    }
}

/// Sets the number of workers, zero for as many as there are CPUs.
///
/// # Errors
///
/// `EBUSY` if they run already.
pub(crate) fn set_workers(workers: usize) -> io::Result<()> {
    let running = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if running.is_some_and(|(process, _)| process == process::id()) {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    WORKERS.store(workers, Ordering::Relaxed);
    Ok(())
}

/// Returns the number of workers that run, or that will.
pub(crate) fn count_workers() -> usize {
    let running = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    running.map_or_else(
        || WORKERS.load(Ordering::Relaxed),
        |(_, runtime)| runtime.workers(),
    )
}
