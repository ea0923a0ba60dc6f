//! Priorities: who inherits them, what runs first, and that nothing starves.

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_A_THREAD, ON_ONE_WORKER, ON_WORKERS, behaviours};
use crate::support::{file_of, pair};
use uthread::net::TcpStream;
use uthread::priority::{self, Priority};
use uthread::sync::mpsc::channel;
use uthread::thread::Builder;
use uthread::{JoinHandle, blocking, scope, sleep, spawn, yield_now};

behaviours![
    (EVERYWHERE, [calls_of_each_priority_complete]),
    (ON_A_THREAD, [a_thread_has_no_priority]),
    (
        IN_FIBERS,
        [
            children_inherit_the_priority,
            a_part_of_the_work_has_a_priority_of_its_own,
            a_fiber_of_another_runtime_inherits_the_priority
        ]
    ),
    (
        ON_ONE_WORKER,
        [
            fibers_start_in_the_order_of_their_priorities,
            urgent_fibers_continue_before_others,
            a_flood_of_urgent_fibers_gets_every_second_turn,
            an_urgent_message_waits_for_few_calls_of_others,
            a_message_waits_for_few_calls_of_bulk_transfers
        ]
    ),
    (ON_WORKERS, [a_flood_starves_nobody])
];

const ALL: [Priority; 3] = [Priority::Urgent, Priority::Normal, Priority::Background];

fn spawn_as<T: Send + 'static>(
    priority: Priority,
    f: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    Builder::new().priority(priority).spawn(f).unwrap()
}

/// Makes the calls outside of fibers too, where a priority changes nothing.
fn calls_of_each_priority_complete(place: Place) {
    let calls = || {
        let file = file_of(b"some bytes");
        let mut bytes = [0; 10];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"some bytes");
        let (mut ours, mut theirs) = pair();
        ours.write_all(&bytes).unwrap();
        theirs.read_exact(&mut bytes).unwrap();
        let (sender, receiver) = channel();
        let child = spawn(move || sender.send(priority::current()));
        let inherited = receiver.recv().unwrap();
        child.join().unwrap().unwrap();
        assert_eq!(inherited, priority::current());
        sleep(Duration::from_micros(200));
        assert_eq!(blocking(|| 7), 7);
        yield_now();
        let (left, right) = uthread::join(priority::current, priority::current);
        assert_eq!((left, right), (left, left));
    };
    place.run(|| {
        ALL.iter()
            .for_each(|priority| priority::with(*priority, calls))
    });
}

fn a_thread_has_no_priority(_: Place) {
    assert_eq!(
        priority::with(Priority::Urgent, priority::current),
        Priority::Normal
    );
    let fiber = priority::with(Priority::Urgent, || spawn(priority::current));
    assert_eq!(fiber.join().unwrap(), Priority::Normal);
    let fiber = spawn_as(Priority::Background, priority::current);
    assert_eq!(fiber.join().unwrap(), Priority::Background);
}

fn children_inherit_the_priority(place: Place) {
    place.run(|| {
        assert_eq!(priority::current(), Priority::Normal);
        for own in ALL {
            let found = spawn_as(own, || {
                let spawned = spawn(priority::current).join().unwrap();
                let built = Builder::new().name("child".into()).spawn(priority::current);
                let scoped = scope(|scope| scope.spawn(priority::current).join().unwrap());
                let tried = uthread::try_scope(|scope| {
                    let child = scope.spawn(|| Ok::<_, ()>(priority::current()));
                    Ok(child.join().unwrap())
                });
                let (joined, part) = uthread::join(priority::current, priority::current);
                let grandchild = spawn(|| spawn(priority::current).join().unwrap());
                let all = [
                    priority::current(),
                    spawned,
                    built.unwrap().join().unwrap(),
                    scoped,
                    tried.unwrap(),
                    joined,
                    part,
                    grandchild.join().unwrap(),
                ];
                let other = spawn_as(Priority::Normal, priority::current);
                (all, other.join().unwrap())
            });
            assert_eq!(found.join().unwrap(), ([own; 8], Priority::Normal));
        }
    });
}

fn a_part_of_the_work_has_a_priority_of_its_own(place: Place) {
    place.run(|| {
        let inner = priority::with(Priority::Background, || {
            let urgent = priority::with(Priority::Urgent, || {
                yield_now();
                priority::current()
            });
            let normal = priority::with(Priority::Normal, priority::current);
            sleep(Duration::from_micros(100));
            (urgent, normal, priority::current())
        });
        let expected = (Priority::Urgent, Priority::Normal, Priority::Background);
        assert_eq!(inner, expected);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            priority::with(Priority::Urgent, || resume_unwind(Box::new(())))
        }));
        assert!(unwound.is_err());
        assert_eq!(priority::current(), Priority::Normal);
    });
}

fn a_fiber_of_another_runtime_inherits_the_priority(place: Place) {
    let other = place.runtime();
    place.run(|| {
        priority::with(Priority::Urgent, || {
            assert_eq!(other.run(priority::current), Priority::Urgent);
            let fiber = other.spawn(priority::current);
            assert_eq!(fiber.join().unwrap(), Priority::Urgent);
        });
        assert_eq!(other.run(priority::current), Priority::Normal);
    });
}

fn fibers_start_in_the_order_of_their_priorities(place: Place) {
    place.run(|| {
        let started = Arc::new(Mutex::new(Vec::new()));
        let start = |priority| {
            let started = Arc::clone(&started);
            spawn_as(priority, move || started.lock().unwrap().push(priority))
        };
        let [urgent, normal, background] = ALL;
        let order = [background, normal, urgent, normal, background, urgent];
        let fibers = order.map(start);
        priority::with(Priority::Urgent, || {
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        let expected = [urgent, urgent, normal, normal, background, background];
        assert_eq!(started.lock().unwrap()[..], expected);
    });
}

/// Checks that fibers that have yielded continue in the order of their priorities, whatever the
/// order of their yields was.
fn urgent_fibers_continue_before_others(place: Place) {
    place.run(|| {
        let turns = Arc::new(Mutex::new(Vec::new()));
        let [urgent, normal, background] = ALL;
        let fibers = [background, normal, urgent].map(|priority| {
            let turns = Arc::clone(&turns);
            spawn_as(Priority::Normal, move || {
                priority::with(priority, || {
                    for _ in 0..3 {
                        yield_now();
                        turns.lock().unwrap().push(priority);
                    }
                });
            })
        });
        priority::with(Priority::Urgent, || {
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        let of_each = |priority| [priority; 3];
        let expected = [urgent, normal, background].map(of_each).concat();
        assert_eq!(*turns.lock().unwrap(), expected);
    });
}

/// Runs so many fibers of each priority, which yield until they have had enough turns together.
/// Returns the turns of each priority.
fn flood(counts: [usize; 3], is_enough: fn([usize; 3]) -> bool) -> [usize; 3] {
    let had: Arc<[AtomicUsize; 3]> = Arc::default();
    let turns = |had: &[AtomicUsize; 3]| had.each_ref().map(|turns| turns.load(Ordering::Relaxed));
    let all = ALL.into_iter().zip(counts);
    let fibers: Vec<_> = all
        .flat_map(|(priority, count)| vec![priority; count])
        .map(|priority| {
            let had = Arc::clone(&had);
            spawn_as(priority, move || {
                while !is_enough(turns(&had)) {
                    had[priority as usize].fetch_add(1, Ordering::Relaxed);
                    yield_now();
                }
            })
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    turns(&had)
}

fn a_flood_of_urgent_fibers_gets_every_second_turn(place: Place) {
    const TURNS: usize = 10_000;
    let is_enough = |turns: [usize; 3]| turns.iter().sum::<usize>() >= TURNS;
    let [urgent, normal, background] = place.run(|| flood([20, 5, 5], is_enough));
    assert!(urgent.abs_diff(TURNS / 2) <= 100, "urgent: {urgent}");
    assert!(
        normal.abs_diff(TURNS / 2 * 8 / 9) <= 100,
        "normal: {normal}"
    );
    assert!(background >= TURNS / 18 - 100, "background: {background}");
}

/// Expects only a minimum of turns: on several workers, how many turns each class has depends on
/// the worker on which its fibers are.
fn a_flood_starves_nobody(place: Place) {
    const EACH: usize = 500;
    /// Ends a flood that starves somebody.
    const MAX: usize = 20_000_000;
    let is_enough = |turns: [usize; 3]| {
        turns.iter().all(|turns| *turns >= EACH) || turns.iter().sum::<usize>() >= MAX
    };
    let turns = place.run(|| flood([20; 3], is_enough));
    assert!(turns.iter().all(|turns| *turns >= EACH), "{turns:?}");
}

/// Catches an urgent fiber that waits for a batch of turns of the others, which never wait for long
/// and whose calls take a while.
fn an_urgent_message_waits_for_few_calls_of_others(place: Place) {
    waits_for_few_calls(place, Priority::Background, Priority::Urgent);
}

/// Checks that a fiber that waits for a message comes before bulk transfers, which use up their
/// turns.
fn a_message_waits_for_few_calls_of_bulk_transfers(place: Place) {
    waits_for_few_calls(place, Priority::Normal, Priority::Normal);
}

fn waits_for_few_calls(place: Place, of_bulk: Priority, of_messages: Priority) {
    const OTHERS: usize = 8;
    const MESSAGES: usize = 50;
    const CHUNK: usize = 64 * 1024;
    let (calls, is_over) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    let send = |mut stream: TcpStream| {
        while !is_over.load(Ordering::Relaxed) {
            stream.write_all(&[0; CHUNK]).unwrap();
            calls.fetch_add(1, Ordering::Relaxed);
        }
    };
    let receive = |mut stream: TcpStream| {
        let mut buffer = vec![0; CHUNK];
        while stream.read(&mut buffer).unwrap() > 0 {}
    };
    let echo = |mut stream: TcpStream| {
        let mut byte = [0];
        while stream.read(&mut byte).unwrap() > 0 {
            stream.write_all(&byte).unwrap();
        }
    };
    let ask = |mut stream: TcpStream| {
        for _ in 0..MESSAGES {
            stream.write_all(&[1]).unwrap();
            stream.read_exact(&mut [0]).unwrap();
        }
    };
    let spent = place.run(|| {
        scope(|scope| {
            for _ in 0..OTHERS {
                let (from, to) = pair();
                priority::with(of_bulk, || {
                    scope.spawn(move || send(from));
                    scope.spawn(move || receive(to));
                });
            }
            priority::with(of_messages, || {
                let (client, server) = pair();
                scope.spawn(move || echo(server));
                let before = calls.load(Ordering::Relaxed);
                ask(client);
                is_over.store(true, Ordering::Relaxed);
                calls.load(Ordering::Relaxed) - before
            })
        })
    });
    let each = spent / MESSAGES;
    assert!(each <= 50, "{each} calls during a message");
}
