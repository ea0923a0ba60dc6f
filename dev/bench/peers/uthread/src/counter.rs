//! One counter that threads or fibers increment together, by each way of sharing it.

use std::hint::black_box;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use uthread::Runtime;
use uthread::sync::Mutex;

/// Increments that are added to the shared counter together: a microsecond of them, so a reader
/// hardly misses them.
const BATCH: u64 = 1024;

/// Number of shards: more than the threads that increment the counter at the same time.
const SHARDS: usize = 64;

#[derive(clap::Args)]
pub(crate) struct Counter {
    /// How the counter is shared
    way: Way,
    /// Number of workers; 0 for OS threads instead of fibers
    pub(crate) workers: usize,
    /// Number of fibers or threads
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    tasks: u64,
    /// Number of increments of each
    each: u64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Way {
    /// A local count, added to an atomic after each batch
    Batched,
    /// An atomic for each worker or thread
    Shards,
    /// One atomic
    Atomic,
    /// A `std::sync::Mutex`
    StdMutex,
    /// A `uthread::sync::Mutex`
    Mutex,
}

impl Counter {
    /// Returns the nanoseconds per increment, from before the first task is spawned until the last
    /// has ended.
    pub(crate) fn measure(&self, runtime: Option<&Runtime>) -> Result<f64> {
        match self.way {
            Way::Batched => self.share(runtime, &Batched::default()),
            Way::Shards => self.share(runtime, &Shards::default()),
            Way::Atomic => self.share(runtime, &AtomicU64::default()),
            Way::StdMutex => self.share(runtime, &StdMutex::default()),
            Way::Mutex => self.share(runtime, &Mutex::default()),
        }
    }

    fn share(&self, runtime: Option<&Runtime>, counter: &impl Shared) -> Result<f64> {
        let each = self.each;
        let begin = Instant::now();
        match runtime {
            None => std::thread::scope(|scope| {
                for _ in 0..self.tasks {
                    scope.spawn(|| counter.add(each));
                }
            }),
            Some(runtime) => runtime.run(|| {
                uthread::scope(|scope| {
                    for _ in 0..self.tasks {
                        scope.spawn(|| counter.add(each));
                    }
                });
            }),
        }
        let elapsed = begin.elapsed();
        let (total, expected) = (counter.total(), self.tasks * each);
        ensure!(total == expected, "it counted {total} of {expected}");
        Ok(elapsed.as_nanos() as f64 / expected as f64)
    }
}

trait Shared: Sync {
    /// Increments it so many times.
    fn add(&self, increments: u64);
    fn total(&self) -> u64;
}

#[derive(Default)]
struct Batched(AtomicU64);

impl Shared for Batched {
    fn add(&self, increments: u64) {
        let mut rest = increments;
        while rest > 0 {
            let batch = rest.min(BATCH);
            let mut local = 0;
            for _ in 0..batch {
                local += black_box(1);
            }
            self.0.fetch_add(local, Ordering::Relaxed);
            rest -= batch;
        }
    }

    fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// On cache lines of its own, two of them, because CPUs prefetch pairs.
#[derive(Default)]
#[repr(align(128))]
struct Shard(AtomicU64);

struct Shards([Shard; SHARDS]);

impl Default for Shards {
    fn default() -> Shards {
        Shards(std::array::from_fn(|_| Shard::default()))
    }
}

static SHARDS_TAKEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The shard of this thread, which all fibers of a worker use.
    static SHARD: usize = SHARDS_TAKEN.fetch_add(1, Ordering::Relaxed) % SHARDS;
}

impl Shared for Shards {
    fn add(&self, increments: u64) {
        for _ in 0..increments {
            // Each time, as a fiber may have moved to another worker since.
            let shard = SHARD.with(|&shard| black_box(shard));
            self.0[shard].0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn total(&self) -> u64 {
        let shards = self.0.iter();
        shards.map(|shard| shard.0.load(Ordering::Relaxed)).sum()
    }
}

impl Shared for AtomicU64 {
    fn add(&self, increments: u64) {
        for _ in 0..increments {
            self.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn total(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }
}

impl Shared for StdMutex<u64> {
    fn add(&self, increments: u64) {
        for _ in 0..increments {
            *self.lock().expect("nothing panics") += 1;
        }
    }

    fn total(&self) -> u64 {
        *self.lock().expect("nothing panics")
    }
}

impl Shared for Mutex<u64> {
    fn add(&self, increments: u64) {
        for _ in 0..increments {
            *self.lock().expect("nothing panics") += 1;
        }
    }

    fn total(&self) -> u64 {
        *self.lock().expect("nothing panics")
    }
}
