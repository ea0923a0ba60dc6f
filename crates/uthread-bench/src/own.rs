//! The same small programs as in `peers/`, on uthread: `peers/README.md` tells what each command
//! measures.

pub(crate) mod disk;
pub(crate) mod echo;
mod fixed;
#[path = "../../../peers/forks.rs"]
mod forks;
#[path = "../../../peers/measure.rs"]
#[allow(
    clippy::print_stdout,
    reason = "the peers have the same file, and not ours for saying something"
)]
mod measure;
mod requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use uthread::sync::RwLock;
use uthread::sync::mpsc::{SyncSender, sync_channel};
use uthread::{join, sleep, spawn, yield_now};

use crate::mode::Mode;
use measure::{growth_per, per_operation, report, resident_bytes};

/// What `uthread-bench own` measures, for the studies to call in a process of its own.
#[derive(clap::Subcommand)]
pub(crate) enum Measured {
    Spawn {
        count: usize,
    },
    Yield {
        fibers: usize,
        count: usize,
    },
    Create {
        count: usize,
    },
    Sleepers {
        count: usize,
    },
    Pingpong {
        workers: usize,
        count: usize,
    },
    Fib {
        workers: usize,
    },
    Sort {
        workers: usize,
        count: usize,
    },
    Fixed {
        port: u16,
        workers: usize,
    },
    Echo {
        port: u16,
        workers: usize,
        compute_us: u64,
        #[command(flatten)]
        ways: echo::Ways,
    },
    Requests {
        #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        fibers: u32,
        requests: u32,
    },
    Disk(disk::Reads),
}

pub(crate) fn run(mode: Mode, measured: &Measured) -> Result<()> {
    let runtime = |workers| mode.runtime(workers);
    match *measured {
        Measured::Spawn { count } => report([runtime(1)?.run(|| spawn_join(count))]),
        Measured::Yield { fibers, count } => report([runtime(1)?.run(|| yields(fibers, count))]),
        Measured::Create { count } => report(runtime(1)?.run(|| create(count))),
        Measured::Fib { workers } => report([runtime(workers)?.run(forks::fib_38)]),
        Measured::Sort { workers, count } => report([runtime(workers)?.run(|| forks::sort(count))]),
        Measured::Sleepers { count } => report([runtime(2)?.run(|| sleepers(count))]),
        Measured::Pingpong { workers, count } => {
            report([runtime(workers)?.run(|| pingpong(count))]);
        }
        Measured::Fixed { port, workers } => return fixed::serve(port, runtime(workers)?),
        Measured::Echo {
            port,
            workers,
            compute_us,
            ways,
        } => echo::serve(port, runtime(workers)?, compute_us, ways)?,
        Measured::Requests { fibers, requests } => {
            requests::perform(&runtime(1)?, fibers, requests)?;
        }
        Measured::Disk(ref reads) => reads.run(&runtime(1)?)?,
    }
    Ok(())
}

fn spawn_join(count: usize) -> f64 {
    let begin = Instant::now();
    for _ in 0..count {
        spawn(|| ()).join().expect("it runs to its end");
    }
    per_operation(begin, count)
}

fn yields(fibers: usize, count: usize) -> f64 {
    let (begun, started) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let each = count / fibers;
    let handles: Vec<_> = (0..fibers)
        .map(|_| {
            let (begun, started) = (Arc::clone(&begun), Arc::clone(&started));
            spawn(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                while !started.load(Ordering::Relaxed) {
                    yield_now();
                }
                for _ in 0..each {
                    yield_now();
                }
            })
        })
        .collect();
    while begun.load(Ordering::Relaxed) < fibers {
        yield_now();
    }
    started.store(true, Ordering::Relaxed);
    let begin = Instant::now();
    for handle in handles {
        handle.join().expect("it runs to its end");
    }
    per_operation(begin, each * fibers)
}

fn create(count: usize) -> [f64; 2] {
    let before = resident_bytes();
    let (last, all_begun) = sync_channel(1);
    let gate = Arc::new(Gate {
        begun: AtomicUsize::new(0),
        last,
        open: RwLock::new(()),
    });
    let closed = gate.open.write();
    let begin = Instant::now();
    let handles: Vec<_> = (0..count)
        .map(|_| {
            let gate = Arc::clone(&gate);
            spawn(move || gate.pass(count))
        })
        .collect();
    all_begun.recv().expect("the last of them sends");
    let figures = [per_operation(begin, count), growth_per(before, count)];
    drop(closed);
    for handle in handles {
        handle.join().expect("it runs to its end");
    }
    figures
}

/// Where all wait for all to have begun.
struct Gate {
    begun: AtomicUsize,
    last: SyncSender<()>,
    /// Locked until they have.
    open: RwLock<()>,
}

impl Gate {
    fn pass(&self, count: usize) {
        if self.begun.fetch_add(1, Ordering::Relaxed) + 1 == count {
            self.last.send(()).expect("it is waited for");
        }
        drop(self.open.read());
    }
}

fn sleepers(count: usize) -> f64 {
    let before = resident_bytes();
    let begun = Arc::new(AtomicUsize::new(0));
    for _ in 0..count {
        let begun = Arc::clone(&begun);
        spawn(move || {
            begun.fetch_add(1, Ordering::Relaxed);
            drop(begun);
            sleep(Duration::from_secs(3600));
        });
    }
    while begun.load(Ordering::Relaxed) < count {
        yield_now();
    }
    growth_per(before, count)
}

fn pingpong(count: usize) -> f64 {
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
