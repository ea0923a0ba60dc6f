//! The number of workers changes while fibers run: none is lost, and those of a worker that is not
//! active any more go on elsewhere.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::place::Place;
use crate::harness::{Gap, IN_FIBERS, ON_WORKERS, OUTSIDE, THREADS, behaviours};
use crate::own_tls::WITHOUT_OWN_TLS;
use crate::support::{HANG, SHORT, eventually, kind, pair, pair_with_std};
use uthread::runtime::Shutdown;
use uthread::sync::Mutex;
use uthread::{Runtime, sleep, spawn, yield_now};

behaviours![
    (
        IN_FIBERS,
        [
            the_number_of_workers_has_limits,
            nothing_is_lost_while_the_number_of_workers_changes
        ]
    ),
    (
        &[OUTSIDE, THREADS, WITHOUT_OWN_TLS],
        [an_inactive_worker_runs_no_fiber]
    ),
    (
        &[OUTSIDE, THREADS, LEAN_ONLY],
        [as_many_fibers_compute_at_once_as_there_are_workers]
    ),
    (
        ON_WORKERS,
        [
            what_was_begun_on_an_inactive_worker_completes,
            a_runtime_with_inactive_workers_ends
        ]
    )
];

const LEAN_ONLY: Gap = Gap(
    Place::has_own_tls,
    "the worker of a fiber that computes goes on",
);

const WORKERS: usize = 3;

fn the_number_of_workers_has_limits(place: Place) {
    let builder = || place.builder();
    let runtime = builder().workers(1).max_workers(2).build().unwrap();
    assert_eq!((runtime.workers(), runtime.max_workers()), (1, 2));
    for refused in [0, 3, usize::MAX] {
        assert_eq!(kind(runtime.set_workers(refused)), ErrorKind::InvalidInput);
    }
    for count in [1, 2, 2, 1] {
        runtime.run(|| runtime.set_workers(count)).unwrap();
        assert_eq!(runtime.workers(), count);
    }
    for refused in [
        builder().workers(3).max_workers(2),
        builder().workers(0).max_workers(2),
        builder().max_workers(0),
        builder().workers(1).max_workers(1025),
    ] {
        assert_eq!(kind(refused.build()), ErrorKind::InvalidInput);
    }
    let fixed = builder().workers(2).build().unwrap();
    assert_eq!(fixed.max_workers(), 2);
}

/// Changes the number until this is set. Returns how often.
fn resize_until(runtime: &Runtime, is_over: &AtomicBool) -> usize {
    let mut changes = 0;
    while !is_over.load(Ordering::Acquire) {
        changes += 1;
        runtime.set_workers(1 + changes * 7 % WORKERS).unwrap();
        thread::sleep(Duration::from_micros(changes as u64 % 5 * 100));
    }
    runtime.set_workers(1 + changes % WORKERS).unwrap();
    changes
}

/// Waits in several ways, each several times.
fn wait_much(sum: &Mutex<usize>) -> io::Result<()> {
    const ROUNDS: usize = 50;
    let (mut near, mut far) = pair();
    let echo = spawn(move || {
        let mut byte = [0];
        while far.read(&mut byte)? == 1 {
            far.write_all(&byte)?;
        }
        io::Result::Ok(())
    });
    for round in 0..ROUNDS {
        near.write_all(&[7])?;
        near.read_exact(&mut [0])?;
        let guard = sum.lock().unwrap();
        yield_now();
        let before = *guard;
        drop(guard);
        *sum.lock().unwrap() += 1;
        assert!(before <= *sum.lock().unwrap());
        if round % 8 == 0 {
            sleep(Duration::from_micros(300));
        }
        let (left, right) = uthread::join(|| spawn(yield_now).join(), || spawn(|| ()).join());
        left.and(right).unwrap();
    }
    drop(near);
    echo.join().unwrap()
}

fn nothing_is_lost_while_the_number_of_workers_changes(place: Place) {
    const FIBERS: usize = 12;
    let builder = place.builder().workers(2).max_workers(WORKERS);
    let runtime = builder.build().unwrap();
    let (is_over, sum) = (AtomicBool::new(false), Arc::new(Mutex::new(0)));
    thread::scope(|threads| {
        let resizing = threads.spawn(|| resize_until(&runtime, &is_over));
        let spawn_waiting = |_| {
            let sum = Arc::clone(&sum);
            runtime.spawn(move || wait_much(&sum).unwrap())
        };
        let fibers: Vec<_> = (0..FIBERS).map(spawn_waiting).collect();
        for fiber in fibers {
            fiber.join().unwrap();
        }
        is_over.store(true, Ordering::Release);
        assert!(resizing.join().unwrap() > 0);
    });
    assert_eq!(*sum.lock().unwrap(), FIBERS * 50);
}

/// Returns the number of switches of all workers but the first one.
fn switches_beyond_one(runtime: &Runtime) -> u64 {
    let metrics = runtime.metrics();
    let beyond = metrics.workers.iter().skip(1);
    beyond.map(|worker| worker.switches).sum()
}

fn an_inactive_worker_runs_no_fiber(place: Place) {
    const FIBERS: usize = 8;
    let runtime = place.runtime_of(WORKERS);
    let (is_over, rounds) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let spawn_echo = |_| {
        let is_over = Arc::clone(&is_over);
        let rounds: Arc<AtomicUsize> = Arc::clone(&rounds);
        runtime.spawn(move || {
            let (mut near, mut far) = pair();
            while !is_over.load(Ordering::Acquire) {
                near.write_all(&[7]).unwrap();
                let echo = spawn(move || far.read_exact(&mut [0]).map(|()| far));
                far = echo.join().unwrap().unwrap();
                sleep(Duration::from_micros(50));
                rounds.fetch_add(1, Ordering::Release);
            }
        })
    };
    let fibers: Vec<_> = (0..FIBERS).map(spawn_echo).collect();
    let pass = |count| {
        let begin = rounds.load(Ordering::Acquire);
        eventually("rounds", || rounds.load(Ordering::Acquire) >= begin + count);
    };
    for _ in 0..3 {
        let before = switches_beyond_one(&runtime);
        eventually("the others run fibers", || {
            switches_beyond_one(&runtime) > before
        });
        runtime.set_workers(1).unwrap();
        // Until each worker has seen it, and each fiber has been ready.
        eventually("the others rest", || {
            let before = switches_beyond_one(&runtime);
            pass(10 * FIBERS);
            switches_beyond_one(&runtime) == before
        });
        let before = switches_beyond_one(&runtime);
        pass(20 * FIBERS);
        assert_eq!(switches_beyond_one(&runtime), before);
        runtime.set_workers(WORKERS).unwrap();
    }
    is_over.store(true, Ordering::Release);
    for fiber in fibers {
        fiber.join().unwrap();
    }
}

fn as_many_fibers_compute_at_once_as_there_are_workers(place: Place) {
    let runtime = place.runtime_of(2);
    // Whether a fiber starts while another one blocks its worker.
    let is_beside = || {
        let (release, released) = mpsc::channel::<()>();
        let (sender, started) = mpsc::channel();
        let first = sender.clone();
        let blocking = runtime.spawn(move || {
            first.send(()).unwrap();
            released.recv().unwrap_err();
        });
        started.recv_timeout(HANG).unwrap();
        let other = runtime.spawn(move || sender.send(()).unwrap());
        let is_beside = started.recv_timeout(SHORT).is_ok();
        drop(release);
        blocking.join().unwrap();
        other.join().unwrap();
        is_beside
    };
    for _ in 0..3 {
        runtime.set_workers(1).unwrap();
        // The other worker may not have seen it yet.
        eventually("one at a time", || !is_beside());
        for _ in 0..10 {
            assert!(!is_beside(), "one worker runs two fibers at once");
        }
        runtime.set_workers(2).unwrap();
        let barrier = Arc::new(Barrier::new(2));
        let meet = |_| {
            let barrier = Arc::clone(&barrier);
            runtime.spawn(move || _ = barrier.wait())
        };
        let fibers: Vec<_> = (0..2).map(meet).collect();
        for fiber in fibers {
            fiber.join().unwrap();
        }
    }
}

fn what_was_begun_on_an_inactive_worker_completes(place: Place) {
    const FIBERS: usize = 8;
    let runtime = place.runtime_of(WORKERS);
    let begun = Instant::now();
    // Each starts where it is not alone, until one waits on a worker that becomes inactive.
    let (mut peers, mut fibers) = (Vec::new(), Vec::new());
    let is_elsewhere = || {
        let listed = runtime.fibers().unwrap();
        listed.iter().filter(|fiber| fiber.worker > 0).count() >= FIBERS / 4
    };
    while fibers.len() < FIBERS || !is_elsewhere() {
        assert!(begun.elapsed() < HANG, "all fibers are on one worker");
        let (mut ours, theirs) = runtime.run(pair_with_std);
        peers.push(theirs);
        fibers.push(runtime.spawn(move || {
            let mut byte = [0];
            ours.read_exact(&mut byte).unwrap();
            sleep(SHORT);
            ours.write_all(&byte).unwrap();
        }));
    }
    runtime.set_workers(1).unwrap();
    thread::sleep(SHORT);
    for peer in &mut peers {
        peer.write_all(&[7]).unwrap();
    }
    for peer in &mut peers {
        peer.read_exact(&mut [0]).unwrap();
    }
    for fiber in fibers {
        fiber.join().unwrap();
    }
}

fn a_runtime_with_inactive_workers_ends(place: Place) {
    for shutdown in [None, Some(Shutdown::Join)] {
        let runtime = place.runtime_of(WORKERS);
        let spawn_sleeping = |index: u32| runtime.spawn(move || sleep(SHORT * (index % 4)));
        let fibers: Vec<_> = (0..40).map(spawn_sleeping).collect();
        runtime.set_workers(1).unwrap();
        match shutdown {
            Some(shutdown) => runtime.shutdown(shutdown),
            None => drop(runtime),
        }
        let ends = fibers.into_iter().map(uthread::JoinHandle::join);
        let ended = ends.filter(Result::is_ok).count();
        assert!(shutdown.is_none() || ended == 40, "{ended} have ended");
    }
}
