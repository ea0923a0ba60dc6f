//! Measures the time in which a cache line moves between two CPUs.

use std::hint;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};

/// Number of lines of one run: less than the second cache of any current CPU.
const LINES: usize = 1024;

/// Number of runs, of which the median counts.
const RUNS: usize = 301;

/// Number of modifications by each thread in one run under contention.
const CONTENDED: u64 = 100_000;

/// The seed of the order in which lines are visited.
const SEED: u64 = 1;

/// A number alone on its line: 128 bytes, as CPUs fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Padded(AtomicUsize);

/// Median times of one access, in nanoseconds.
pub(crate) struct Times {
    /// A load of a line that the other CPU has written.
    pub(crate) load_ns: f64,
    /// A read-modify-write of such a line.
    pub(crate) rmw_ns: f64,
    /// A read-modify-write of a line that the CPU owns.
    pub(crate) owned_rmw_ns: f64,
    /// A read-modify-write of one line by both CPUs, without pause.
    pub(crate) contended_ns: f64,
}

/// Measures on the first two CPUs.
pub(crate) fn measure() -> std::io::Result<Times> {
    // Once before, so that failures are reported by this thread.
    pin(1)?;
    pin(0)?;
    Ok(Times {
        load_ns: visits(true, |line| line.load(Ordering::Relaxed)),
        rmw_ns: visits(true, |line| line.fetch_add(0, Ordering::Relaxed)),
        owned_rmw_ns: visits(false, |line| line.fetch_add(0, Ordering::Relaxed)),
        contended_ns: contention(),
    })
}

fn pin(cpu: usize) -> std::io::Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    Ok(sched_setaffinity(None, &cpus)?)
}

/// Returns lines of which each has the index of the next one, in a cycle in random order: each
/// visit needs the previous one, and no CPU guesses the next.
fn cycle() -> Vec<Padded> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut order: Vec<usize> = (0..LINES).collect();
    random.shuffle(&mut order);
    let lines: Vec<Padded> = (0..LINES).map(|_| Padded::default()).collect();
    for (from, to) in order.iter().zip(order.iter().cycle().skip(1)) {
        lines[*from].0.store(*to, Ordering::Relaxed);
    }
    lines
}

/// Returns the median time of a visit. If lines are `written`, another CPU has done so before each
/// run.
fn visits(written: bool, visit: impl Fn(&AtomicUsize) -> usize) -> f64 {
    let lines = cycle();
    let turn = AtomicUsize::new(0);
    let mut times = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = pin(1);
            for run in 0..RUNS {
                wait_for(&turn, 2 * run);
                if written {
                    for line in &lines {
                        let next = line.0.load(Ordering::Relaxed);
                        line.0.store(next, Ordering::Relaxed);
                    }
                }
                turn.store(2 * run + 1, Ordering::Release);
            }
        });
        for run in 0..RUNS {
            wait_for(&turn, 2 * run + 1);
            let begin = Instant::now();
            let end = (0..LINES).fold(0, |at, _| visit(&lines[at].0));
            let time = begin.elapsed();
            assert_eq!(hint::black_box(end), 0, "the lines form one cycle");
            times.push(time.as_nanos() as f64 / LINES as f64);
            turn.store(2 * run + 2, Ordering::Release);
        }
    });
    median(&mut times)
}

/// Returns the median time of a modification of one line by both CPUs.
fn contention() -> f64 {
    let mut times: Vec<f64> = (0..RUNS / 10).map(|_| contend()).collect();
    median(&mut times)
}

fn contend() -> f64 {
    let counter = AtomicU64::new(0);
    let present = AtomicUsize::new(0);
    let begin = thread::scope(|scope| {
        let run = |cpu| {
            let _ = pin(cpu);
            present.fetch_add(1, Ordering::AcqRel);
            wait_for(&present, 2);
            let begin = Instant::now();
            for _ in 0..CONTENDED {
                counter.fetch_add(1, Ordering::Relaxed);
            }
            begin
        };
        let other = scope.spawn(move || run(1));
        let begin = run(0);
        other.join().map_or(begin, |other| begin.min(other))
    });
    begin.elapsed().as_nanos() as f64 / (2 * CONTENDED) as f64
}

fn wait_for(turn: &AtomicUsize, value: usize) {
    // Acquire pairs with the release of the other thread.
    while turn.load(Ordering::Acquire) < value {
        hint::spin_loop();
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
