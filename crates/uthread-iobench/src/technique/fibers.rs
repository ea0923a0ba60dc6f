//! Fibers: each performs one request after the other, by calls that look like blocking ones.

use std::io;
use std::ops::DerefMut;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use uthread::fs::{AlignedBuffer, File, OpenOptions};
use uthread::ring::{RegisteredBuffer, RegisteredFile};
use uthread::{Driver, Runtime, try_scope};

use super::{call, walk};
use crate::blocks::{self, BLOCK_BYTES};
use crate::kv;
use crate::load::{Load, Pattern};
use crate::tally::Tally;
use crate::urgent;
use crate::walk::Walk;

/// The driver, and the features of its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fibers {
    Plain,
    /// Files and buffers are registered with the ring.
    Registered,
    /// The device is polled for completions.
    Polled,
    Epoll,
    Threads,
}

impl Fibers {
    fn driver(self) -> Driver {
        match self {
            Fibers::Plain | Fibers::Registered | Fibers::Polled => Driver::Uring,
            Fibers::Epoll => Driver::Epoll,
            Fibers::Threads => Driver::Threads,
        }
    }
}

/// Performs the requests of a load on as many workers as it has files.
pub(super) fn perform(load: &Load, fibers: Fibers) -> io::Result<Tally> {
    let mut builder = Runtime::builder().driver(fibers.driver());
    if fibers == Fibers::Polled {
        builder = builder.io_polling();
    }
    let runtime = builder.workers(load.files.len().max(1)).build()?;
    match load.pattern {
        Pattern::Sequential | Pattern::Random | Pattern::Mixed => {}
        Pattern::KeyValue => return kv::perform(load, &runtime),
        Pattern::UrgentReads(_) | Pattern::UrgentEchoes(_) => {
            return urgent::perform(load, &runtime);
        }
    }
    let tally = Mutex::new(Tally::new());
    let sum = &tally;
    runtime.run(|| {
        try_scope(|scope| {
            for path in &load.files {
                scope.spawn(move || on_file(load, fibers, path, sum));
            }
            Ok::<_, io::Error>(())
        })
    })?;
    let mut tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Other drivers call the kernel on threads of a pool or of the fibers.
    let counts = fibers.driver().has_ring();
    tally.calls = counts.then(|| runtime.metrics().total().enters);
    Ok(tally)
}

fn on_file(load: &Load, fibers: Fibers, path: &Path, tally: &Mutex<Tally>) -> io::Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .direct(true)
        .open(path)?;
    let walk = walk(load, file.metadata()?.len())?;
    if fibers != Fibers::Registered {
        let buffer = || AlignedBuffer::for_file(&file, BLOCK_BYTES);
        return by_fibers(load.depth, &file, &walk, buffer, tally);
    }
    let file = RegisteredFile::new(file);
    if !file.is_registered() {
        return Err(io::Error::other("the driver has registered no file"));
    }
    let buffer = || {
        let buffer = RegisteredBuffer::new(BLOCK_BYTES)?;
        if buffer.is_registered() {
            Ok(buffer)
        } else {
            Err(io::Error::other("no registered buffer: raise `ulimit -l`"))
        }
    };
    by_fibers(load.depth, &file, &walk, buffer, tally)
}

fn by_fibers<B: DerefMut<Target = [u8]>>(
    depth: usize,
    file: &File,
    walk: &Walk,
    buffer: impl Fn() -> io::Result<B> + Sync,
    tally: &Mutex<Tally>,
) -> io::Result<()> {
    let buffer = &buffer;
    try_scope(|scope| {
        for _ in 0..depth {
            scope.spawn(move || one_after_another(file, walk, &mut buffer()?, tally));
        }
        Ok(())
    })
}

fn one_after_another(
    file: &File,
    walk: &Walk,
    buffer: &mut [u8],
    tally: &Mutex<Tally>,
) -> io::Result<()> {
    while let Some(request) = walk.next() {
        blocks::prepare(request, buffer);
        let begin = Instant::now();
        let result = call(file, request, buffer);
        let latency = begin.elapsed();
        blocks::check(request, result, buffer)?;
        // The lock is never held while the fiber waits.
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.record(request, latency);
    }
    Ok(())
}
