//! Virtual time: the clock of a runtime whose time stands still while one of its fibers can run, and the
//! random numbers by which it can be repeated.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::time::ClockId;

use crate::world::World;

/// The date at which time begins if there is a seed: the start of the year 2000.
const SEEDED_START: Duration = Duration::from_secs(946_684_800);

/// Number of reads at one time after which each takes time. A program that only asks what time it is seldom does
/// so as often before it waits.
const READS_MAX: u64 = 100_000;

/// How long a read takes then, in nanoseconds: a loop of a second ends after a million reads, within 0.1 s.
const READ_NS: u64 = 1000;

/// The increment of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number of ticks between two reads of the counter at one time: some tens of nanoseconds.
const TICKS: Range<u64> = 32..288;

/// A clock that only its worker moves.
pub(crate) struct VirtualClock {
    on_start: fn(),
    /// The state of the random numbers, if there is a seed. Relaxed: one thread at a time uses it.
    random: Option<AtomicU64>,
    /// The times of the system's clocks when this one was first read.
    start: OnceLock<Start>,
    /// Nanoseconds since then. Relaxed: a fiber that is woken learns of the time by what wakes it.
    elapsed: AtomicU64,
    /// Number of reads by the program since it was last moved.
    reads: AtomicU64,
    /// The last value of the counter.
    shown: AtomicU64,
    /// What the fibers use instead of the kernel's network and files, if there is anything.
    world: OnceLock<Arc<dyn World>>,
}

#[derive(Debug)]
struct Start {
    monotonic: Duration,
    boot: Duration,
    real: Duration,
}

impl VirtualClock {
    /// Creates a clock whose worker calls `on_start` first.
    pub(crate) fn new(seed: Option<u64>, on_start: fn()) -> VirtualClock {
        VirtualClock {
            on_start,
            random: seed.map(AtomicU64::new),
            start: OnceLock::new(),
            elapsed: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            shown: AtomicU64::new(0),
            world: OnceLock::new(),
        }
    }

    pub(crate) fn world(&self) -> Option<&Arc<dyn World>> {
        self.world.get()
    }

    /// Sets the world. Returns `false` if there is one.
    pub(crate) fn enter(&self, world: Arc<dyn World>) -> bool {
        self.world.set(world).is_ok()
    }

    /// Returns `true` if a seed decides.
    pub(crate) fn is_seeded(&self) -> bool {
        self.random.is_some()
    }

    /// Returns the next random number, if there is a seed: by SplitMix64 (Steele, Lea and Flood, 2014).
    pub(crate) fn random(&self) -> Option<u64> {
        let state = self.random.as_ref()?.fetch_add(STEP, Ordering::Relaxed);
        Some(mix(state.wrapping_add(STEP)))
    }

    /// Returns a number below `bound`, which is not zero, if there is a seed.
    pub(crate) fn random_below(&self, bound: u32) -> Option<u32> {
        let number = u128::from(self.random()?) * u128::from(bound);
        Some((number >> u64::BITS) as u32)
    }

    /// Returns the time by a clock of the system (`clock_gettime(2)`), since its epoch. Returns
    /// `None` for a clock that runs on, such as one of CPU time.
    pub(crate) fn time(&self, clock: libc::clockid_t) -> Option<Duration> {
        let start = self.start();
        let start = match clock {
            libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE => {
                start.monotonic
            }
            libc::CLOCK_BOOTTIME => start.boot,
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => start.real,
            _ => return None,
        };
        Some(start + self.elapsed())
    }

    /// Returns the time since this clock was first read.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed.load(Ordering::Relaxed))
    }

    fn start(&self) -> &Start {
        self.start.get_or_init(|| Start {
            monotonic: of_system(ClockId::Monotonic),
            boot: of_system(ClockId::Boottime),
            real: match self.random {
                Some(_) => SEEDED_START,
                None => of_system(ClockId::Realtime),
            },
        })
    }

    /// Prepares the calling thread, which is the worker's.
    pub(crate) fn prepare_thread(&self) {
        self.begin(self.on_start);
    }

    /// Calls `action`, for which it is the time at which this clock starts.
    pub(crate) fn begin<R>(&self, action: impl FnOnce() -> R) -> R {
        BEGINNING.set(Some(self.start().monotonic));
        let result = action();
        BEGINNING.set(None);
        result
    }

    /// Notes that the program has read a clock. If it does so again and again at one time, it may wait for a later
    /// one in a loop: each read takes time then.
    pub(crate) fn note_read(&self) {
        // Relaxed: one worker uses the clock.
        if self.reads.fetch_add(1, Ordering::Relaxed) >= READS_MAX {
            self.elapsed.fetch_add(READ_NS, Ordering::Relaxed);
        }
    }

    /// Returns the next value of a counter that has this value by the time. It exceeds the last one by a random
    /// number of ticks at least: programs take random numbers from the jitter of a counter.
    pub(crate) fn count(&self, value: u64) -> u64 {
        let shown = self.shown.load(Ordering::Relaxed);
        let random = self.random().unwrap_or_else(|| mix(shown));
        let next = value.max(shown + TICKS.start + random % (TICKS.end - TICKS.start));
        self.shown.store(next, Ordering::Relaxed);
        next
    }

    /// Moves the clock. Called by its worker.
    pub(crate) fn advance(&self, time: Duration) {
        self.reads.store(0, Ordering::Relaxed);
        let elapsed = self.elapsed.load(Ordering::Relaxed);
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.elapsed
            .store(elapsed.saturating_add(time), Ordering::Relaxed);
    }
}

/// The output function of SplitMix64.
fn mix(mut number: u64) -> u64 {
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

thread_local! {
    /// The time of the monotonic clock in [`VirtualClock::begin`].
    static BEGINNING: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Returns the time by a clock of the system in [`VirtualClock::begin`]. Never inlined, like every access
/// to a thread-local that fibers make.
#[inline(never)]
pub(crate) fn beginning(clock: libc::clockid_t) -> Option<Duration> {
    BEGINNING.get().filter(|_| clock == libc::CLOCK_MONOTONIC)
}

fn of_system(clock: ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    // Neither is negative.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clocks_but_those_of_cpu_time_move_by_the_same_time() {
        let clock = VirtualClock::new(None, || {});
        let clocks = [
            libc::CLOCK_MONOTONIC,
            libc::CLOCK_BOOTTIME,
            libc::CLOCK_REALTIME,
        ];
        let before = clocks.map(|id| clock.time(id).unwrap());
        let hour = Duration::from_secs(3600);
        clock.advance(hour);
        assert_eq!(
            clocks.map(|id| clock.time(id).unwrap()),
            before.map(|time| time + hour)
        );
        assert_eq!(clock.time(libc::CLOCK_THREAD_CPUTIME_ID), None);
    }

    #[test]
    fn a_counter_moves_with_time_and_with_each_read() {
        let clock = VirtualClock::new(None, || {});
        assert_eq!(clock.count(1000), 1000);
        let more = clock.count(1000) - 1000;
        assert!(TICKS.contains(&more));
        assert_eq!(clock.count(5000), 5000);
        assert_ne!(clock.count(5000) - 5000, more);
    }

    #[test]
    fn a_loop_that_reads_the_clock_ends() {
        let clock = VirtualClock::new(None, || {});
        (0..READS_MAX).for_each(|_| clock.note_read());
        assert_eq!(clock.elapsed(), Duration::ZERO);
        (0..10).for_each(|_| clock.note_read());
        assert_eq!(clock.elapsed(), Duration::from_nanos(10 * READ_NS));
        clock.advance(Duration::from_secs(1));
        let time = clock.elapsed();
        (0..READS_MAX).for_each(|_| clock.note_read());
        assert_eq!(clock.elapsed(), time);
    }

    #[test]
    fn a_seed_decides_the_date_and_the_numbers() {
        let clock = VirtualClock::new(Some(1234567), || {});
        // The first numbers of the reference implementation with this seed.
        let numbers = [clock.random(), clock.random()];
        assert_eq!(
            numbers,
            [Some(6457827717110365317), Some(3203168211198807973)]
        );
        assert_eq!(clock.time(libc::CLOCK_REALTIME), Some(SEEDED_START));
        assert!((0..100).all(|_| clock.random_below(3).unwrap() < 3));
        assert_eq!(VirtualClock::new(None, || {}).random(), None);
    }
}
