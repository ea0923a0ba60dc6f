//! The lengths of run queues and the scheduling delays in the metrics of a runtime.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, ON_ONE_LEAN_WORKER, OUTSIDE, OWN_THREAD, THREADS, behaviours};
use crate::support::{HANG, eventually};
use uthread::priority::Priority;
use uthread::runtime::{Delays, Metrics};
use uthread::thread::park;
use uthread::{JoinHandle, Runtime, sleep, spawn, yield_now};

behaviours![
    (
        ON_ONE_LEAN_WORKER,
        [
            new_fibers_are_counted_where_they_wait,
            fibers_of_each_priority_are_counted,
            fibers_that_another_thread_wakes_are_ready
        ]
    ),
    (
        // A spare thread would go on with the worker.
        &[OUTSIDE, THREADS, OWN_THREAD],
        [
            ready_fibers_are_counted_exactly,
            a_fiber_that_keeps_its_worker_delays_others,
            a_probe_waits_behind_the_ready_fibers,
            a_probe_waits_behind_the_urgent_fibers,
            workers_that_sleep_measure_nothing
        ]
    ),
    (IN_FIBERS, [delays_are_measured_only_if_asked_for]),
];

/// Fibers that yield until they are told to end.
struct Yielding {
    end: Arc<AtomicBool>,
    handles: Vec<JoinHandle<()>>,
}

impl Yielding {
    /// Starts `count` fibers of this priority, which call `turn` between their yields. Returns when
    /// each has begun.
    fn start(
        count: usize,
        priority: Priority,
        turn: impl Fn() + Copy + Send + 'static,
    ) -> Yielding {
        let end = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(AtomicUsize::new(0));
        let start = |_| {
            let (end, begun) = (Arc::clone(&end), Arc::clone(&begun));
            let run = move || {
                begun.fetch_add(1, Ordering::Relaxed);
                while !end.load(Ordering::Relaxed) {
                    turn();
                    yield_now();
                }
            };
            uthread::thread::Builder::new()
                .priority(priority)
                .spawn(run)
                .unwrap()
        };
        let handles = (0..count).map(start).collect();
        while begun.load(Ordering::Relaxed) < count {
            yield_now();
        }
        Yielding { end, handles }
    }

    fn end(self) {
        self.end.store(true, Ordering::Relaxed);
        for handle in self.handles {
            handle.join().unwrap();
        }
    }
}

/// Returns the numbers of ready and of new fibers of all workers, and of those that wait for any
/// worker.
fn queued(metrics: &Metrics) -> (usize, usize, usize) {
    let total = metrics.total();
    (total.ready, total.new, metrics.injector)
}

/// Keeps the other workers busy while the caller, a fiber, calls `scope`.
fn alone_on_a_worker(place: Place, scope: impl FnOnce()) {
    let (releases, others): (Vec<_>, Vec<_>) = (1..place.workers())
        .map(|_| {
            let (begun, has_begun) = mpsc::channel();
            let (release, released) = mpsc::channel::<()>();
            let other = spawn(move || {
                begun.send(()).unwrap();
                let _ = released.recv_timeout(HANG);
            });
            // Blocks this worker, so that another one takes the fiber.
            has_begun.recv_timeout(HANG).unwrap();
            (release, other)
        })
        .unzip();
    scope();
    drop(releases);
    for other in others {
        other.join().unwrap();
    }
}

fn ready_fibers_are_counted_exactly(place: Place) {
    // The ring of the queue is full with 256.
    for count in [0, 1, 255, 256, 257, 600] {
        let runtime = place.runtime();
        runtime.run(|| {
            alone_on_a_worker(place, || {
                let others = Yielding::start(count, Priority::Normal, || ());
                assert_eq!(queued(&runtime.metrics()), (count, 0, 0));
                assert_eq!(queued(&Metrics::current().unwrap()), (count, 0, 0));
                // The worker does not look at its queues meanwhile.
                let read = || thread::scope(|scope| scope.spawn(|| runtime.metrics()).join());
                assert_eq!(queued(&read().unwrap()), (count, 0, 0));
                others.end();
                assert_eq!(queued(&runtime.metrics()), (0, 0, 0));
            });
        });
    }
}

fn fibers_of_each_priority_are_counted(place: Place) {
    let runtime = place.runtime();
    runtime.run(|| {
        let counts = [
            (3, Priority::Normal),
            (4, Priority::Urgent),
            (5, Priority::Background),
        ];
        let all = counts.map(|(count, priority)| Yielding::start(count, priority, || ()));
        assert_eq!(queued(&runtime.metrics()), (12, 0, 0));
        all.into_iter().for_each(Yielding::end);
        assert_eq!(queued(&runtime.metrics()), (0, 0, 0));
    });
}

fn new_fibers_are_counted_where_they_wait(place: Place) {
    let runtime = place.runtime();
    runtime.run(|| {
        let mut handles: Vec<_> = (0..7).map(|_| spawn(|| ())).collect();
        let spawn_outside = || (0..3).map(|_| runtime.spawn(|| ())).collect::<Vec<_>>();
        handles.extend(thread::scope(|scope| {
            scope.spawn(spawn_outside).join().unwrap()
        }));
        assert_eq!(queued(&runtime.metrics()), (0, 7, 3));
        for handle in handles {
            handle.join().unwrap();
        }
        assert_eq!(queued(&runtime.metrics()), (0, 0, 0));
    });
}

fn fibers_that_another_thread_wakes_are_ready(place: Place) {
    let runtime = place.runtime();
    runtime.run(|| {
        let handles: Vec<_> = (0..5).map(|_| spawn(park)).collect();
        while Metrics::current().unwrap().total().fibers < 6 {
            yield_now();
        }
        assert_eq!(queued(&runtime.metrics()), (0, 0, 0));
        let wake = || handles.iter().for_each(|handle| handle.thread().unpark());
        thread::scope(|scope| scope.spawn(wake).join().unwrap());
        assert_eq!(queued(&runtime.metrics()), (5, 0, 0));
        for handle in handles {
            handle.join().unwrap();
        }
    });
}

/// Builds a runtime of one worker whose delays are sampled as often as possible.
fn sampled(place: Place) -> Runtime {
    let builder = place.builder().workers(1);
    builder.sample_delays(Duration::ZERO).build().unwrap()
}

fn delays() -> Delays {
    Metrics::current().unwrap().total().delays
}

fn a_fiber_that_keeps_its_worker_delays_others(place: Place) {
    const KEPT: Duration = Duration::from_millis(50);
    sampled(place).run(|| {
        let others = Yielding::start(3, Priority::Normal, || ());
        // The monitor may be late.
        eventually(
            "a probe is sent when the worker has just been taken",
            || {
                thread::sleep(KEPT);
                yield_now();
                delays().max >= KEPT * 4 / 5
            },
        );
        others.end();
        let delays = delays();
        assert_eq!(
            delays.buckets().map(|(_, count)| count).sum::<u64>(),
            delays.count
        );
        assert!(delays.total >= delays.max && delays.mean() <= Some(delays.max));
    });
}

fn a_probe_waits_behind_the_ready_fibers(place: Place) {
    sampled(place).run(|| assert_shortest_delay(Priority::Normal));
}

fn a_probe_waits_behind_the_urgent_fibers(place: Place) {
    sampled(place).run(|| {
        let urgent = Yielding::start(1, Priority::Urgent, || ());
        assert_shortest_delay(Priority::Normal);
        urgent.end();
    });
}

/// Asserts that each delay is as long as the turns of the fibers that are always ready.
fn assert_shortest_delay(priority: Priority) {
    const FIBERS: usize = 16;
    const TURN: Duration = Duration::from_millis(2);
    let others = Yielding::start(FIBERS, priority, || thread::sleep(TURN));
    // The probes that were queued among fewer fibers are recorded first.
    let more_than = |count| {
        eventually("probes are recorded", || {
            yield_now();
            delays().count > count
        });
    };
    more_than(delays().count);
    let before = delays();
    more_than(before.count);
    let after = delays();
    let shorter = |delays: &Delays| -> u64 {
        let buckets = delays.buckets();
        let shorter = buckets.take_while(|(bound, _)| *bound < TURN * (FIBERS as u32 - 1));
        shorter.map(|(_, count)| count).sum()
    };
    assert_eq!(shorter(&before), shorter(&after), "{before:?} {after:?}");
    others.end();
}

fn workers_that_sleep_measure_nothing(place: Place) {
    const NAPS: u32 = 20;
    let runtime = sampled(place);
    let count = || runtime.metrics().total().delays.count;
    // A probe is sent if the worker is awake at that moment. Five of them pass in a nap.
    let nap = || (0..NAPS).for_each(|_| sleep(Duration::from_millis(5)));
    eventually("hardly any probe is sent", || {
        let before = count();
        runtime.run(nap);
        count() - before < NAPS.into()
    });
    assert_eq!(queued(&runtime.metrics()), (0, 0, 0));
    eventually("no probe is sent any more", || {
        let before = count();
        thread::sleep(Duration::from_millis(50));
        count() == before
    });
}

fn delays_are_measured_only_if_asked_for(place: Place) {
    let keep = || {
        let others = Yielding::start(3, Priority::Normal, || ());
        thread::sleep(Duration::from_millis(50));
        yield_now();
        others.end();
    };
    let runtime = place.runtime();
    runtime.run(keep);
    assert_eq!(runtime.metrics().total().delays, Delays::default());
    if place.is_of_threads() {
        let runtime = sampled(place);
        runtime.run(keep);
        assert_eq!(queued(&runtime.metrics()), (0, 0, 0));
        assert_eq!(runtime.metrics().total().delays, Delays::default());
    }
}
