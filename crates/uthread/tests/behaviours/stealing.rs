//! Placement of fibers: new ones move to idle workers, started ones stay, and none is forgotten.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::place::Place;
use crate::harness::{
    EVERYWHERE, Gap, IN_FIBERS, ON_ONE_WORKER, ON_SEVERAL_WORKERS, ONE_WORKER, OUTSIDE, OWN_THREAD,
    OWN_TLS, THREADS, behaviours,
};
use crate::support::{FREE, HANG};
use rustix::thread::{Pid, gettid};
use uthread::fs::File;
use uthread::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use uthread::thread::{Thread, park};
use uthread::{blocking, current, ring, scope, sleep, spawn, yield_now};

behaviours![
    (
        ON_SEVERAL_WORKERS,
        [
            an_idle_worker_takes_what_a_busy_one_has_not_started,
            every_worker_takes_part,
            a_fiber_spawned_by_a_foreign_thread_finds_an_idle_worker
        ]
    ),
    (
        &[OUTSIDE, THREADS, ONE_WORKER, OWN_TLS],
        [
            a_started_fiber_stays_on_its_thread,
            connections_are_spread_over_the_workers
        ]
    ),
    (
        &[
            OUTSIDE,
            OWN_THREAD,
            Gap(
                Place::is_of_threads,
                "a call that blocks needs no other thread"
            )
        ],
        [blocking_calls_run_beside_each_other_within_their_bound]
    ),
    (
        ON_ONE_WORKER,
        [a_stream_of_newer_fibers_does_not_starve_the_oldest]
    ),
    (
        EVERYWHERE,
        [
            fibers_that_wait_for_each_other_in_a_tree_all_end,
            sleeps_end_neither_early_nor_at_the_wrong_fiber
        ]
    ),
    (
        IN_FIBERS,
        [
            yielding_fibers_starve_neither_new_ones_nor_anything_else,
            foreign_threads_spawn_at_once_and_lose_nothing,
            no_wake_up_from_a_foreign_thread_is_lost
        ]
    ),
];

fn os_thread() -> Pid {
    gettid()
}

fn an_idle_worker_takes_what_a_busy_one_has_not_started(place: Place) {
    place.run(|| {
        let (sender, ids) = mpsc::channel();
        for index in 0..100 {
            let sender = sender.clone();
            spawn(move || sender.send((index, os_thread())).unwrap());
        }
        // Blocks the worker itself, so that only the other one is left.
        let mut taken: Vec<_> = (0..100).map(|_| ids.recv_timeout(HANG).unwrap()).collect();
        // A thread that goes on in place of a blocked one may have run some.
        let own = os_thread();
        assert!(place.has_own_tls() || taken.iter().all(|(_, id)| *id != own));
        taken.sort_by_key(|(index, _)| *index);
        assert!(taken.iter().map(|(index, _)| *index).eq(0..100));
    });
}

fn every_worker_takes_part(place: Place) {
    const WORKERS: usize = 4;
    let runtime = place.runtime_of(WORKERS);
    let barrier = Arc::new(Barrier::new(WORKERS));
    runtime.run(|| {
        let meet = |_| {
            let barrier = Arc::clone(&barrier);
            // Each blocks its worker until all workers are blocked so.
            spawn(move || {
                barrier.wait();
                os_thread()
            })
        };
        let handles: Vec<_> = (0..WORKERS).map(meet).collect();
        let ids: HashSet<_> = handles
            .into_iter()
            .map(|handle| handle.join().unwrap())
            .collect();
        assert_eq!(ids.len(), WORKERS);
    });
}

fn a_fiber_spawned_by_a_foreign_thread_finds_an_idle_worker(place: Place) {
    let runtime = place.runtime();
    let (release, released) = mpsc::channel::<()>();
    let (sender, started) = mpsc::channel();
    let busy = runtime.spawn(move || {
        sender.send(()).unwrap();
        let _ = released.recv_timeout(HANG);
        os_thread()
    });
    started.recv_timeout(HANG).unwrap();
    let handles: Vec<_> = (0..100).map(|_| runtime.spawn(os_thread)).collect();
    let ids: HashSet<_> = handles
        .into_iter()
        .map(|handle| handle.join().unwrap())
        .collect();
    release.send(()).unwrap();
    // The worker may change its thread.
    assert!(ids.len() == 1 || place.has_own_tls());
    assert!(!ids.contains(&busy.join().unwrap()));
}

fn a_started_fiber_stays_on_its_thread(place: Place) {
    thread_local!(static VISITS: AtomicUsize = const { AtomicUsize::new(0) });
    let travel = || {
        let home = os_thread();
        let local: *const AtomicUsize = VISITS.with(std::ptr::from_ref);
        let (reader, writer) = std::io::pipe().unwrap();
        let mut reader = File::from(OwnedFd::from(reader));
        let mut writer = File::from(OwnedFd::from(writer));
        for round in 0..200 {
            match round % 7 {
                0 => yield_now(),
                1 => sleep(Duration::from_micros(50)),
                2 => drop(spawn(yield_now).join()),
                3 => assert_ne!(blocking(os_thread), home),
                4 => scope(|scope| drop(scope.spawn(yield_now))),
                5 => {
                    let own = current();
                    let waker = thread::spawn(move || own.unpark());
                    park();
                    blocking(|| waker.join().unwrap());
                }
                _ => {
                    let sender = spawn(move || writer.write_all(&[1]).map(|()| writer));
                    reader.read_exact(&mut [0]).unwrap();
                    writer = sender.join().unwrap().unwrap();
                }
            }
            assert_eq!(os_thread(), home, "moved in round {round}");
            assert!(std::ptr::eq(local, VISITS.with(std::ptr::from_ref)));
        }
    };
    let runtime = place.runtime_of(3);
    let travellers: Vec<_> = (0..12).map(|_| runtime.spawn(travel)).collect();
    for traveller in travellers {
        traveller.join().unwrap();
    }
}

fn yielding_fibers_starve_neither_new_ones_nor_anything_else(place: Place) {
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = place.runtime();
    let yielders: Vec<_> = (0..10)
        .map(|_| {
            let stop = Arc::clone(&stop);
            runtime.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    yield_now();
                }
            })
        })
        .collect();
    // From outside, from inside, by a timer, by a completion, by another thread.
    assert_eq!(runtime.spawn(|| 1).join().unwrap(), 1);
    runtime.run(|| {
        let newest = |depth| spawn(move || depth).join().unwrap();
        assert_eq!(newest(5), 5);
        sleep(Duration::from_millis(2));
        assert!(uthread::fs::read("Cargo.toml").unwrap().len() > 10);
        assert_eq!(blocking(|| 3), 3);
        let own = current();
        let waker = thread::spawn(move || own.unpark());
        park();
        blocking(|| waker.join().unwrap());
    });
    stop.store(true, Ordering::Relaxed);
    yielders
        .into_iter()
        .for_each(|yielder| yielder.join().unwrap());
}

fn a_stream_of_newer_fibers_does_not_starve_the_oldest(place: Place) {
    /// Spawns a fiber that does the same, so that there is always a newer one.
    fn stream(stop: &Arc<AtomicBool>, links: &Arc<AtomicUsize>) {
        const LINKS_MAX: usize = 100_000;
        if !stop.load(Ordering::Relaxed) && links.fetch_add(1, Ordering::Relaxed) < LINKS_MAX {
            let (stop, links) = (Arc::clone(stop), Arc::clone(links));
            spawn(move || stream(&stop, &links));
        }
    }
    place.run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let links = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&stop);
        let oldest = spawn(move || theirs.store(true, Ordering::Relaxed));
        stream(&stop, &links);
        oldest.join().unwrap();
        let links = links.load(Ordering::Relaxed);
        assert!(links < 100, "{links} newer ones went first");
    });
}

fn fibers_that_wait_for_each_other_in_a_tree_all_end(place: Place) {
    fn count_leaves(depth: u32) -> u32 {
        if depth == 0 {
            return 1;
        }
        let (mut left, mut middle) = (0, 0);
        let right = scope(|scope| {
            scope.spawn(|| left = count_leaves(depth - 1));
            scope.spawn(|| middle = count_leaves(depth - 1));
            yield_now();
            scope.spawn(|| count_leaves(depth - 1)).join().unwrap()
        });
        left + middle + right
    }
    place.run(|| assert_eq!(count_leaves(7), 2187));
}

fn foreign_threads_spawn_at_once_and_lose_nothing(place: Place) {
    const THREADS: usize = 4;
    const FIBERS: usize = 500;
    let runtime = place.runtime();
    let seen = Mutex::new(HashSet::new());
    thread::scope(|threads| {
        for thread in 0..THREADS {
            let (runtime, seen) = (&runtime, &seen);
            threads.spawn(move || {
                for index in 0..FIBERS {
                    // Joined now and then, so that workers fall asleep in between.
                    let handle = runtime.spawn(move || (thread, index));
                    let value = handle.join().unwrap();
                    assert!(seen.lock().unwrap().insert(value));
                    drop(runtime.spawn(yield_now));
                }
            });
        }
    });
    assert_eq!(seen.into_inner().unwrap().len(), THREADS * FIBERS);
}

fn no_wake_up_from_a_foreign_thread_is_lost(place: Place) {
    const ROUNDS: usize = 3000;
    let runtime = place.runtime();
    let pairs: Vec<_> = (0..3)
        .map(|_| {
            let turn = Arc::new(AtomicUsize::new(0));
            let theirs = Arc::clone(&turn);
            let (sender, fibers) = mpsc::channel::<Thread>();
            let thread = thread::spawn(move || {
                let fiber = fibers.recv().unwrap();
                for round in 0..ROUNDS {
                    while theirs.load(Ordering::Acquire) != 2 * round + 1 {
                        thread::park_timeout(HANG);
                    }
                    theirs.store(2 * round + 2, Ordering::Release);
                    fiber.unpark();
                }
            });
            let waker = thread.thread().clone();
            let fiber = runtime.spawn(move || {
                sender.send(current()).unwrap();
                for round in 0..ROUNDS {
                    turn.store(2 * round + 1, Ordering::Release);
                    waker.unpark();
                    while turn.load(Ordering::Acquire) != 2 * round + 2 {
                        park();
                    }
                }
            });
            (fiber, thread)
        })
        .collect();
    for (fiber, thread) in pairs {
        fiber.join().unwrap();
        thread.join().unwrap();
    }
}

fn sleeps_end_neither_early_nor_at_the_wrong_fiber(place: Place) {
    place.run(|| {
        let handles: Vec<_> = (0..200_u64)
            .map(|index| {
                spawn(move || {
                    let duration = Duration::from_micros(index * 37 % 5000);
                    let start = Instant::now();
                    sleep(duration);
                    assert!(start.elapsed() >= duration);
                    assert!(start.elapsed() < HANG);
                })
            })
            .collect();
        handles
            .into_iter()
            .for_each(|handle| handle.join().unwrap());
        sleep(Duration::ZERO);
    });
}

/// Starts a runtime of its own, in which nobody else makes such calls.
fn blocking_calls_run_beside_each_other_within_their_bound(place: Place) {
    let runtime = place.builder().blocking_threads(BOUND).build().unwrap();
    runtime.run(blocking_calls_keep_their_bound);
}

const BOUND: usize = 16;

fn blocking_calls_keep_their_bound() {
    let meeting = Barrier::new(2);
    scope(|scope| {
        // Each of the two needs the other to go on.
        scope.spawn(|| blocking(|| meeting.wait()));
        scope.spawn(|| blocking(|| meeting.wait()));
    });
    let running = AtomicUsize::new(0);
    let gate = Mutex::new(());
    scope(|scope| {
        let closed = gate.lock().unwrap();
        for _ in 0..2 * BOUND {
            scope.spawn(|| {
                blocking(|| {
                    running.fetch_add(1, Ordering::SeqCst);
                    drop(gate.lock().unwrap());
                });
            });
        }
        let start = Instant::now();
        while running.load(Ordering::SeqCst) < BOUND {
            assert!(start.elapsed() < HANG);
            sleep(Duration::from_millis(1));
        }
        // Time for one too many to show itself.
        sleep(Duration::from_millis(20));
        assert_eq!(running.load(Ordering::SeqCst), BOUND);
        drop(closed);
    });
    assert_eq!(running.load(Ordering::SeqCst), 2 * BOUND);
}

/// Catches a worker that accepts and serves most of the connections itself: each waits as soon as
/// it has begun.
fn connections_are_spread_over_the_workers(place: Place) {
    const CONNECTIONS: usize = 20;
    let counts = |streams: &mut dyn Iterator<Item = OwnedFd>| {
        let serve = |stream: OwnedFd| {
            spawn(move || {
                let file = File::from(stream);
                assert_eq!(
                    (&file).read(&mut [0]).unwrap(),
                    0,
                    "the client sends nothing"
                );
                os_thread()
            })
        };
        let serving: Vec<_> = streams.take(CONNECTIONS).map(serve).collect();
        let mut counts = HashMap::<Pid, usize>::new();
        for connection in serving {
            *counts.entry(connection.join().unwrap()).or_default() += 1;
        }
        counts
    };
    // To the others, a worker that has no CPU for a millisecond is stuck, and they take over some
    // of its connections. Even on a busy machine, this leaves a third to each in most attempts;
    // without the spreading, few are so even.
    let spreads = |accept: &dyn Fn() -> HashMap<Pid, usize>| {
        const MOST: usize = 5;
        let (mut even, mut uneven) = (0, Vec::new());
        while even < MOST {
            let counts = accept();
            if counts.len() > 1 && counts.values().all(|count| 3 * count >= CONNECTIONS) {
                even += 1;
            } else {
                uneven.push(counts);
            }
            assert!(uneven.len() < MOST, "{uneven:?}");
        }
    };
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || (0..CONNECTIONS).for_each(|_| drop(TcpStream::connect(address).unwrap()));
        spreads(&|| {
            connect();
            counts(&mut listener.incoming().map(|stream| stream.unwrap().into()))
        });
        spreads(&|| {
            connect();
            counts(&mut ring::accept(&listener).map(|stream| stream.unwrap().into()))
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        spreads(&|| {
            (0..CONNECTIONS).for_each(|_| drop(UnixStream::connect(&path).unwrap()));
            counts(&mut listener.incoming().map(|stream| stream.unwrap().into()))
        });
    });
}
