//! A small key-value store on fibers, and a load of puts and gets: what the requests of the other
//! scenarios are good for.

mod record;
mod state;
mod store;

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use fastrand::Rng;
use uthread::fs::{File, OpenOptions};
use uthread::{Runtime, try_scope};

use crate::blocks::BLOCK_BYTES;
use crate::load::Load;
use crate::tally::Tally;
use crate::usage::Meter;
use crate::walk::Request;
use store::Store;

/// Number of fibers that put all keys before the measurement: as many as a batch has puts.
const LOADING_FIBERS: u64 = state::BATCH_MAX as u64;
/// Share of the blocks that have a live record: with more, compaction copies more.
const LIVE_PERCENT: u64 = 50;

/// Puts all keys, then measures as many puts and gets as the load has requests, and recovers the
/// store from its file.
///
/// # Errors
///
/// The errors of the file; any other if a value was lost.
pub(crate) fn perform(load: &Load, runtime: &Runtime) -> io::Result<Tally> {
    let path: &Path = load.files.first().ok_or(io::ErrorKind::InvalidInput)?;
    runtime.run(|| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .direct(true)
            .open(path)?;
        let blocks = file.metadata()?.len() / BLOCK_BYTES as u64;
        let identity = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let store = Store::create(&file, identity.as_nanos() as u64)?;
        measure(load, &file, &store, blocks * LIVE_PERCENT / 100)
    })
}

fn measure(load: &Load, file: &File, store: &Store<'_>, keys: u64) -> io::Result<Tally> {
    let tally = Mutex::new(Tally::new());
    let span = try_scope(|scope| {
        scope.spawn(|| store.compact());
        let result = put_all(store, keys).and_then(|()| {
            store.forget_counts();
            let begin = Meter::now()?;
            put_and_get(load, store, keys, &tally)?;
            Ok((begin, Meter::now()?))
        });
        store.end();
        result
    })?;
    let recovered = Store::recover(file, store.identity())?;
    if recovered.contents() != store.contents() {
        return Err(io::Error::other("the file does not have what was put"));
    }
    let mut tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    tally.calls = None;
    tally.span = Some(span);
    tally.written_per_put = store.written_per_put();
    Ok(tally)
}

fn put_all(store: &Store<'_>, keys: u64) -> io::Result<()> {
    let next = &AtomicU64::new(0);
    try_scope(|scope| {
        for _ in 0..LOADING_FIBERS {
            scope.spawn(move || {
                loop {
                    match next.fetch_add(1, Ordering::Relaxed) {
                        key if key < keys => store.put(key)?,
                        _ => return Ok(()),
                    }
                }
            });
        }
        Ok(())
    })
}

/// Puts and gets random keys, one after the other in each fiber.
fn put_and_get(load: &Load, store: &Store<'_>, keys: u64, tally: &Mutex<Tally>) -> io::Result<()> {
    let next = &AtomicU64::new(0);
    try_scope(|scope| {
        for fiber in 0..load.depth as u64 {
            let mut random = Rng::with_seed(load.seed.wrapping_add(fiber));
            scope.spawn(move || {
                while next.fetch_add(1, Ordering::Relaxed) < load.requests {
                    let (key, is_put) = (random.u64(..keys), random.bool());
                    let begin = Instant::now();
                    let request = if is_put {
                        store.put(key).map(|()| Request::Write(key))?
                    } else {
                        store.get(key).map(|_| Request::Read(key))?
                    };
                    let latency = begin.elapsed();
                    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                    tally.record(request, latency);
                }
                Ok(())
            });
        }
        Ok(())
    })
}
