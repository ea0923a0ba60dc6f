//! The costs of fibers and of system threads: the same code for both, with the threads of the
//! including program, which have the names of `std`.

use std::time::{Duration, Instant};

use super::measure::{growth_per, per_operation, resident_bytes};
use super::stack::descend;
use super::threads::sync::atomic::{AtomicUsize, Ordering};
use super::threads::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use super::threads::sync::{Arc, RwLock};
use super::threads::thread::Builder;
use super::threads::{sleep, spawn, yield_now};

pub(crate) fn spawn_join(count: usize) -> f64 {
    let begin = Instant::now();
    for _ in 0..count {
        spawn(|| ()).join().expect("the thread does not panic");
    }
    per_operation(begin, count)
}

pub(crate) fn yields(threads: usize, count: usize) -> f64 {
    let each = count / threads;
    let (gate, all_begun) = Gate::new(threads);
    let closed = gate.open.write();
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let gate = Arc::clone(&gate);
            spawn(move || {
                gate.pass();
                for _ in 0..each {
                    yield_now();
                }
            })
        })
        .collect();
    all_begun.recv().expect("the last of them sends");
    let begin = Instant::now();
    drop(closed);
    for handle in handles {
        handle.join().expect("the thread does not panic");
    }
    per_operation(begin, each * threads)
}

pub(crate) fn create(count: usize) -> [f64; 2] {
    let before = resident_bytes();
    let (gate, all_begun) = Gate::new(count);
    let closed = gate.open.write();
    let begin = Instant::now();
    let handles: Vec<_> = (0..count)
        .map(|_| {
            let gate = Arc::clone(&gate);
            spawn(move || gate.pass())
        })
        .collect();
    all_begun.recv().expect("the last of them sends");
    let figures = [per_operation(begin, count), growth_per(before, count)];
    drop(closed);
    for handle in handles {
        handle.join().expect("the thread does not panic");
    }
    figures
}

/// Calls `stage` before `count` threads exist, while all wait, and after all have ended. Each uses
/// `kib` KiB of its stack, and waits within the calls that use it if `is_held`, else after they
/// have returned. The stacks have the default size.
pub(crate) fn memory(count: usize, kib: usize, is_held: bool, stage: impl Fn(&'static str)) {
    stage("before");
    let (gate, all_begun) = Gate::new(count);
    let closed = gate.open.write();
    let handles: Vec<_> = (0..count)
        .map(|_| {
            let gate = Arc::clone(&gate);
            let body = move || {
                if is_held {
                    descend(kib, &mut || gate.pass());
                } else {
                    descend(kib, &mut || ());
                    gate.pass();
                }
            };
            let thread = Builder::new().spawn(body);
            thread.expect("the system allows another thread")
        })
        .collect();
    all_begun.recv().expect("the last of them sends");
    stage("peak");
    drop(closed);
    for handle in handles {
        handle.join().expect("the thread does not panic");
    }
    stage("ended");
}

/// Where all wait for all to have begun.
struct Gate {
    still_to_begin: AtomicUsize,
    last: SyncSender<()>,
    /// Locked until they have.
    open: RwLock<()>,
}

impl Gate {
    /// Creates a gate for `count` threads, and the receiver of the message that all have begun.
    fn new(count: usize) -> (Arc<Gate>, Receiver<()>) {
        let (last, all_begun) = sync_channel(1);
        let gate = Gate {
            still_to_begin: AtomicUsize::new(count),
            last,
            open: RwLock::new(()),
        };
        (Arc::new(gate), all_begun)
    }

    fn pass(&self) {
        if self.still_to_begin.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.last
                .send(())
                .expect("the main thread waits for the last");
        }
        drop(self.open.read());
    }
}

pub(crate) fn sleepers(count: usize) -> f64 {
    let before = resident_bytes();
    let (began, begun) = channel();
    for _ in 0..count {
        let began = began.clone();
        spawn(move || {
            began.send(()).expect("the receiver lives");
            drop(began);
            sleep(Duration::from_secs(3600));
        });
    }
    for _ in 0..count {
        begun.recv().expect("each sends once");
    }
    growth_per(before, count)
}

pub(crate) fn pingpong(count: usize) -> f64 {
    let (ping, pings) = sync_channel(1);
    let (pong, pongs) = sync_channel(1);
    spawn(move || {
        for message in pings {
            pong.send(message).expect("ping waits for it");
        }
    });
    let begin = Instant::now();
    for message in 0..count {
        ping.send(message).expect("pong lives");
        assert_eq!(pongs.recv(), Ok(message));
    }
    per_operation(begin, count)
}
