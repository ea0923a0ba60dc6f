//! Urgent requests beside other load on one worker: how long they take, and what is left for the
//! others.
//!
//! The others are *rivals*: fibers that make requests from before the first urgent one until after
//! the last one. With priorities, the urgent fibers are urgent and the rivals are background;
//! without, all are normal.

mod echoes;
mod reads;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use uthread::Runtime;
use uthread::priority::{self, Priority};
use uthread::sync::Barrier;

use crate::load::{Load, Pattern, Rivals};
use crate::tally::Tally;
use crate::usage::Meter;
use crate::walk::{Request, Walk};

pub(crate) use echoes::CHUNK_BYTES;

/// Performs the urgent requests of a load, beside as many rivals as its depth. In the tally, these
/// are reads, and those of the rivals are writes.
///
/// # Errors
///
/// `InvalidInput` if the load has no urgent requests, or no file for them; any other error of a
/// request.
pub(crate) fn perform(load: &Load, runtime: &Runtime) -> io::Result<Tally> {
    runtime.run(|| match load.pattern {
        Pattern::UrgentReads(rivals) => reads::perform(load, rivals),
        Pattern::UrgentEchoes(rivals) => echoes::perform(load, rivals),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    })
}

/// The state that urgent requests and rivals share.
struct Stage {
    rivals: Rivals,
    /// Number of rivals.
    count: usize,
    walk: Walk,
    /// Where all meet when each rival has made one request.
    start: Barrier,
    is_over: AtomicBool,
    /// The requests since the start.
    tally: Mutex<Tally>,
}

impl Stage {
    /// Describes the requests of a load, each for one of so many numbers.
    fn new(load: &Load, rivals: Rivals, numbers: u64) -> Stage {
        let count = match rivals {
            Rivals::None => 0,
            Rivals::Equal | Rivals::Background => load.depth,
        };
        Stage {
            rivals,
            count,
            walk: Walk::new(load, numbers),
            start: Barrier::new(count + 1),
            is_over: AtomicBool::new(false),
            tally: Mutex::new(Tally::new()),
        }
    }

    /// Calls `f` with the priority of urgent requests, which fibers that it spawns inherit.
    fn as_urgent<T>(&self, f: impl FnOnce() -> T) -> T {
        self.with(Priority::Urgent, f)
    }

    /// Calls `f` with the priority of rivals, which fibers that it spawns inherit.
    fn as_rival<T>(&self, f: impl FnOnce() -> T) -> T {
        self.with(Priority::Background, f)
    }

    fn with<T>(&self, priority: Priority, f: impl FnOnce() -> T) -> T {
        match self.rivals {
            Rivals::Background => priority::with(priority, f),
            Rivals::None | Rivals::Equal => f(),
        }
    }

    /// Makes all urgent requests, one after the other. The rivals end with them, also if one fails.
    ///
    /// # Errors
    ///
    /// The first error of `request`.
    fn urgent(&self, mut request: impl FnMut(u64) -> io::Result<()>) -> io::Result<()> {
        let _over = Over(&self.is_over);
        self.start.wait();
        let begin = Meter::now()?;
        while let Some(Request::Read(number)) = self.walk.next() {
            let begin = Instant::now();
            request(number)?;
            self.record(Request::Read(number), begin.elapsed());
        }
        let span = (begin, Meter::now()?);
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.span = Some(span);
        Ok(())
    }

    /// Makes requests, one after the other, until the urgent ones are over.
    ///
    /// # Errors
    ///
    /// The first error of `request`.
    fn rival(&self, mut request: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        request()?;
        self.start.wait();
        loop {
            let begin = Instant::now();
            request()?;
            if self.is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.record(Request::Write(0), begin.elapsed());
        }
    }

    fn record(&self, request: Request, latency: Duration) {
        // The lock is never held while the fiber waits.
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.record(request, latency);
    }

    fn into_tally(self) -> Tally {
        self.tally
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the rivals on drop.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
