//! A fiber that occupies its worker while others wait is reported by name; a waiting fiber is not.

use std::io::{self, BufRead, BufReader, Read};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, panic, process, thread};

use crate::fixtures::fiber_or_thread::park_for_ever;
use crate::harness::child::{alone, child};
use crate::harness::place::Place;
use crate::harness::{
    ON_ONE_LEAN_WORKER, ON_ONE_WORKER, OUTSIDE, OWN_THREAD, THREADS, behaviours, lacks,
};
use crate::own_tls::WITH_OWN_TLS;
use crate::support::calls::waits_for_cpu;
use crate::support::{HANG, eventually};
use uthread::runtime::{Metrics, Stall, StallCause};
use uthread::thread::Builder;
use uthread::{JoinHandle, Runtime, sleep, spawn, yield_now};

behaviours![
    (
        // No fiber keeps the worker where fibers have thread-local storage of their own.
        &[OUTSIDE, THREADS, OWN_THREAD],
        [workers_kept_from_fibers_that_have_not_started_are_named]
    ),
    (
        WITH_OWN_TLS,
        [a_fiber_that_blocks_beside_a_free_worker_is_no_stall]
    ),
    (
        ON_ONE_WORKER,
        [
            a_fiber_that_computes_alone_disturbs_nobody,
            fibers_that_wait_are_no_stall,
            a_fiber_whose_panic_is_printed_for_long_is_no_stall
        ]
    ),
    (
        ON_ONE_LEAN_WORKER,
        [
            a_fiber_that_computes_while_another_waits_is_named,
            a_long_stall_is_reported_again_and_counted_once,
            a_fiber_blocked_by_a_lock_of_std_is_reported,
            a_lock_of_std_held_across_a_yield_is_named,
            a_fiber_blocked_in_another_call_is_reported,
            a_stall_after_a_long_rest_is_noticed,
            a_report_that_panics_does_not_end_the_watch,
            stalls_are_not_watched_if_disabled,
            by_default_a_stall_is_printed
        ]
    )
];

pub(crate) const THRESHOLD: Duration = Duration::from_millis(10);

/// Starts a runtime of one worker, and returns it and the stalls it tells of.
fn watched(place: Place) -> (Runtime, Receiver<Stall>) {
    watched_from(place.builder(), THRESHOLD)
}

fn watched_from(
    builder: uthread::runtime::Builder,
    threshold: Duration,
) -> (Runtime, Receiver<Stall>) {
    let (sender, stalls) = mpsc::channel();
    let runtime = builder
        .stall_threshold(threshold)
        .on_stall(move |stall| drop(sender.send(stall.clone())))
        .build()
        .unwrap();
    (runtime, stalls)
}

/// Spawns a fiber, and returns it once it has begun and waits for its turn.
pub(crate) fn waiting() -> JoinHandle<()> {
    let begun = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&begun);
    let waits = spawn(move || {
        theirs.store(true, Ordering::Relaxed);
        yield_now();
    });
    while !begun.load(Ordering::Relaxed) {
        yield_now();
    }
    waits
}

/// Checks that no stall is reported while `body` runs, in a process of its own. A worker that waits
/// for a CPU keeps its fibers waiting as well, which is no fault: the check is repeated then.
fn assert_no_stall(place: Place, body: impl Fn(&Runtime)) {
    const TRIES: usize = 5;
    alone(|| {
        for _ in 0..TRIES {
            let (runtime, stalls) = watched(place);
            let waits_before = waits_for_cpu();
            body(&runtime);
            let waits = waits_for_cpu().zip(waits_before);
            drop(runtime);
            let stalls: Vec<_> = stalls.try_iter().collect();
            let Some(longest) = stalls.iter().map(|stall| stall.duration).max() else {
                return;
            };
            let was_starved = waits.is_none_or(|(waits, waits_before)| {
                waits.saturating_sub(waits_before) + THRESHOLD >= longest
            });
            assert!(was_starved, "{stalls:?}");
        }
        lacks("not measured: the workers waited for a CPU");
    });
}

/// Replaces the standard error of this process, and returns the lines that it prints from now on.
pub(crate) fn printed_lines() -> Receiver<String> {
    let (reader, writer) = io::pipe().unwrap();
    rustix::stdio::dup2_stderr(writer).unwrap();
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let read = BufReader::new(reader).lines().map_while(Result::ok);
        read.for_each(|line| drop(sender.send(line)));
    });
    lines
}

/// Keeps the worker until a stall of the calling fiber, which has a name, is reported: others may
/// stall where their worker has to wait for a CPU.
fn compute_until_reported(stalls: &Receiver<Stall>) -> Stall {
    let own = uthread::current();
    compute_until(|| {
        let stall = stalls.try_recv().ok();
        stall.filter(|stall| stall.name.as_deref() == own.name())
    })
}

/// Keeps the worker until `look` has found something.
fn compute_until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < HANG, "the stall was not reported");
    }
}

/// Keeps the worker for several times the threshold.
fn compute() {
    let start = Instant::now();
    while start.elapsed() < 5 * THRESHOLD {
        std::hint::spin_loop();
    }
}

fn a_fiber_that_computes_while_another_waits_is_named(place: Place) {
    let (runtime, stalls) = watched(place);
    let (stall, line) = runtime.run(|| {
        let waits = waiting();
        let busy = Builder::new().name("busy".into());
        let (busy, line) = (busy.spawn(move || compute_until_reported(&stalls)), line!());
        let stall = busy.unwrap().join().unwrap();
        waits.join().unwrap();
        (stall, line)
    });
    assert_eq!(stall.name.as_deref(), Some("busy"));
    assert_eq!(stall.spawn_site.file(), Location::caller().file());
    assert_eq!(stall.spawn_site.line(), line);
    assert_eq!(stall.worker, 0);
    assert_eq!(stall.cause, StallCause::Runs);
    assert!(stall.duration >= THRESHOLD, "{stall}");
    assert!(runtime.metrics().total().stalls > 0);
}

fn a_long_stall_is_reported_again_and_counted_once(place: Place) {
    let (runtime, stalls) = watched(place);
    runtime.run(move || {
        let waits = waiting();
        let mut last = compute_until_reported(&stalls);
        let counted = || Metrics::current().unwrap().total().stalls;
        let counted_before = counted();
        for _ in 0..3 {
            let next = compute_until_reported(&stalls);
            assert_eq!(next.fiber, last.fiber);
            assert!(next.duration >= last.duration * 2, "{next}; before: {last}");
            last = next;
        }
        assert!(counted_before > 0);
        assert_eq!(counted(), counted_before);
        waits.join().unwrap();
    });
}

/// Runs a fiber that blocks its worker until `release`, and returns the report of it.
fn blocked(place: Place, block: impl FnOnce() + Send + 'static, release: impl FnOnce()) -> Stall {
    // Before the fiber blocks, the report may be that of a slow machine.
    let is_blocked = |stall: &Stall| stall.cause != StallCause::Runs;
    blocked_until(place.builder(), is_blocked, block, release)
}

/// Runs a fiber that blocks the only worker until `release`; the first report that is `expected`.
pub(crate) fn blocked_until(
    builder: uthread::runtime::Builder,
    expected: impl Fn(&Stall) -> bool,
    block: impl FnOnce() + Send + 'static,
    release: impl FnOnce(),
) -> Stall {
    let (runtime, stalls) = watched_from(builder, THRESHOLD);
    let fibers = runtime.spawn(move || {
        let waits = waiting();
        let blocked = Builder::new().name("blocked".to_owned());
        blocked.spawn(block).unwrap().join().unwrap();
        waits.join().unwrap();
    });
    let report = loop {
        match stalls.recv_timeout(HANG) {
            Ok(stall) if !expected(&stall) => {}
            report => break report,
        }
    };
    release();
    fibers.join().unwrap();
    report.expect("the stall was not reported")
}

fn a_fiber_blocked_by_a_lock_of_std_is_reported(place: Place) {
    let mutex = Arc::new(Mutex::new(()));
    let guard = mutex.lock().unwrap();
    let theirs = Arc::clone(&mutex);
    let stall = blocked(place, move || drop(theirs.lock()), || drop(guard));
    assert_eq!(stall.cause, StallCause::WaitsForLock);
    assert_eq!(stall.system_call, Some("futex"));
    assert_eq!(stall.name.as_deref(), Some("blocked"));
}

fn a_fiber_blocked_in_another_call_is_reported(place: Place) {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let read = move || drop(reader.read(&mut [0]));
    let stall = blocked(place, read, || drop(writer));
    assert_eq!(stall.cause, StallCause::WaitsInKernel);
    assert_eq!(stall.system_call, Some("read"));
    assert!(
        stall.to_string().contains(", blocked in read: use"),
        "{stall}"
    );
}

/// Makes the worker wait for a lock whose holder waits for the worker: forever, so that only the
/// end of the process ends it.
fn a_lock_of_std_held_across_a_yield_is_named(place: Place) {
    if let Some(output) = child() {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", output.status);
        let remedy =
            "if a dependency blocks, call it in uthread::blocking, or do without lean fibers";
        assert!(text.contains("\"second\" (spawned at "), "{text}");
        assert!(text.contains(remedy), "{text}");
        return;
    }
    let report = |stall: &Stall| {
        if stall.cause == StallCause::WaitsForLock {
            eprintln!("{stall}");
            process::exit(0);
        }
    };
    let builder = place.builder().stall_threshold(THRESHOLD);
    builder.on_stall(report).build().unwrap().run(|| {
        let mutex = Arc::new(Mutex::new(()));
        let theirs = Arc::clone(&mutex);
        let begun = Arc::new(AtomicBool::new(false));
        let has_begun = Arc::clone(&begun);
        spawn(move || {
            let _guard = theirs.lock();
            has_begun.store(true, Ordering::Relaxed);
            loop {
                yield_now();
            }
        });
        while !begun.load(Ordering::Relaxed) {
            yield_now();
        }
        let second = Builder::new().name("second".to_owned());
        let second = second.spawn(move || drop(mutex.lock())).unwrap();
        second.join().unwrap();
        process::exit(1);
    });
}

/// Keeps every worker, while the only fibers that wait have not started: spawned from outside, and
/// by a fiber that spins.
fn workers_kept_from_fibers_that_have_not_started_are_named(place: Place) {
    for from_outside in [true, false] {
        let (runtime, stalls) = watched(place);
        let spinning = Arc::new(AtomicUsize::new(0));
        let reported = Arc::new(AtomicBool::new(false));
        let spinners: Vec<_> = (0..place.workers())
            .map(|index| {
                let (spinning, reported) = (Arc::clone(&spinning), Arc::clone(&reported));
                runtime.spawn(move || {
                    spinning.fetch_add(1, Ordering::Relaxed);
                    while spinning.load(Ordering::Relaxed) < place.workers() {}
                    let unstarted = (index == 0 && !from_outside).then(|| spawn(|| ()));
                    while !reported.load(Ordering::Relaxed) {}
                    drop(unstarted);
                })
            })
            .collect();
        eventually("all workers are kept", || {
            spinning.load(Ordering::Relaxed) == place.workers()
        });
        let unstarted = from_outside.then(|| runtime.spawn(|| ()));
        let stall = stalls.recv_timeout(HANG);
        reported.store(true, Ordering::Relaxed);
        let stall = stall.expect("the stall was not reported");
        assert_eq!(stall.cause, StallCause::Runs);
        assert!(stall.duration >= THRESHOLD, "{stall}");
        for fiber in spinners.into_iter().chain(unstarted) {
            fiber.join().unwrap();
        }
    }
}

fn a_fiber_that_computes_alone_disturbs_nobody(place: Place) {
    assert_no_stall(place, |runtime| {
        runtime.run(compute);
        // A fiber with a second closure that no worker has begun disturbs no other either.
        let long = || (0..4).for_each(|_| compute());
        runtime.run(|| uthread::join(long, || ()));
    });
}

/// Blocks a worker while another fiber lives, which any other worker would run.
fn a_fiber_that_blocks_beside_a_free_worker_is_no_stall(place: Place) {
    assert_no_stall(place, |runtime| {
        drop(runtime.spawn(park_for_ever));
        let blocking = runtime.spawn(|| thread::sleep(20 * THRESHOLD));
        blocking.join().unwrap();
    });
}

fn fibers_that_wait_are_no_stall(place: Place) {
    let pause = 10 * THRESHOLD;
    assert_no_stall(place, |runtime| {
        runtime.run(|| {
            let sleepers = [(); 3].map(|()| spawn(move || sleep(pause)));
            for sleeper in sleepers {
                sleeper.join().unwrap();
            }
            uthread::blocking(|| thread::sleep(pause));
        });
    });
}

/// Catches a monitor that sleeps on: it stops looking while everybody sleeps.
fn a_stall_after_a_long_rest_is_noticed(place: Place) {
    let (runtime, stalls) = watched(place);
    runtime.run(|| sleep(20 * THRESHOLD));
    thread::sleep(20 * THRESHOLD);
    runtime.run(move || {
        let waits = waiting();
        compute_until_reported(&stalls);
        waits.join().unwrap();
    });
}

fn a_report_that_panics_does_not_end_the_watch(place: Place) {
    let (sender, stalls) = mpsc::channel();
    let panicked = AtomicBool::new(false);
    let runtime = place
        .builder()
        .stall_threshold(THRESHOLD)
        .on_stall(move |stall| {
            assert!(
                panicked.swap(true, Ordering::Relaxed),
                "the first report panics, as the test wants"
            );
            drop(sender.send(stall.clone()));
        })
        .build()
        .unwrap();
    runtime.run(move || {
        let waits = waiting();
        compute_until_reported(&stalls);
        waits.join().unwrap();
    });
}

fn stalls_are_not_watched_if_disabled(place: Place) {
    let has_thread = |wanted: &str| {
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        tasks.flatten().any(|task| {
            fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == wanted)
        })
    };
    let builder = place.builder();
    let without = builder.clone().name("alone").stall_threshold(None);
    let without = without.build().unwrap();
    let with = builder.name("watched").build().unwrap();
    eventually("a monitor", || has_thread("watched-monitor"));
    assert!(!has_thread("alone-monitor"));
    drop((with, without));
}

fn a_fiber_whose_panic_is_printed_for_long_is_no_stall(place: Place) {
    alone(|| {
        panic::set_hook(Box::new(|_| thread::sleep(10 * THRESHOLD)));
        assert_no_stall(place, |runtime| {
            runtime.run(|| {
                let waits = waiting();
                spawn(|| panic!("this text takes long to print"))
                    .join()
                    .unwrap_err();
                waits.join().unwrap();
            });
        });
    });
}

fn by_default_a_stall_is_printed(place: Place) {
    alone(|| {
        let lines = printed_lines();
        let start = Instant::now();
        let is_stall = |line: &String| line.starts_with("uthread: fiber ");
        let runtime = Runtime::builder().driver(place.driver()).workers(1).lean();
        let runtime = runtime.stall_threshold(THRESHOLD).build().unwrap();
        runtime.run(move || {
            let waits = waiting();
            let mut printed = Vec::new();
            compute_until(|| {
                printed.extend(lines.try_iter().filter(is_stall));
                let line = printed.last()?;
                line.contains("\"main\" (spawned at ").then_some(())
            });
            let line = printed.last().unwrap();
            assert!(line.contains("stalls.rs:"), "{line}");
            assert!(line.contains("has kept worker 0 for "), "{line}");
            // The stall goes on and is seen several times, but printed once a second.
            (0..4).for_each(|_| compute());
            printed.extend(lines.try_iter().filter(is_stall));
            let lines_max = 1 + start.elapsed().as_secs() as usize;
            assert!(printed.len() <= lines_max, "{printed:?}");
            waits.join().unwrap();
        });
    });
}
