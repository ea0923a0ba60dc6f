//! Workers that are taken from their threads again and again, in the middle of all that fibers do.

use std::cell::Cell;
use std::hint::black_box;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::behaviours;
use crate::harness::place::Place;
use crate::own_tls::WITH_OWN_TLS;
use uthread::net::{TcpListener, TcpStream};
use uthread::sync::mpsc::sync_channel;
use uthread::sync::{Mutex, Semaphore};
use uthread::{blocking, scope, sleep, spawn, timeout, yield_now};

behaviours![(
    WITH_OWN_TLS,
    [
        all_kinds_of_calls_go_on_when_workers_are_taken,
        spawned_fibers_end_when_workers_are_taken,
        a_panic_unwinds_a_fiber_whose_worker_was_taken,
        a_fiber_whose_worker_was_taken_is_cancelled,
        the_stack_of_a_fiber_whose_worker_was_taken_is_left_alone
    ]
)];

/// Long enough for the monitor to take the worker.
const LONG: Duration = Duration::from_millis(3);

/// Keeps the calling thread, by the kernel or by computing.
fn keep_thread(number: usize) {
    if number.is_multiple_of(2) {
        return thread::sleep(LONG);
    }
    let begin = Instant::now();
    while begin.elapsed() < LONG {
        black_box(());
    }
}

thread_local! {
    static OWN: Cell<usize> = const { Cell::new(0) };
}

#[inline(never)]
fn own() -> usize {
    OWN.get()
}

/// Keeps the thread and waits by turns, and checks the fiber's own values.
fn mix(number: usize, call: impl Fn()) {
    const ROUNDS: usize = 6;
    OWN.set(number);
    for round in 0..ROUNDS {
        if (number + round).is_multiple_of(3) {
            keep_thread(number + round);
        }
        assert_eq!(own(), number);
        call();
        assert_eq!(own(), number);
    }
}

fn all_kinds_of_calls_go_on_when_workers_are_taken(place: Place) {
    const PAIRS: usize = 6;
    place.runtime_of(2).run(|| {
        let (mutex, permits, count) = (Mutex::new(0), Semaphore::new(2), AtomicUsize::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        scope(|scope| {
            for number in 0..PAIRS {
                let (mutex, permits, count) = (&mutex, &permits, &count);
                scope.spawn(move || mix(number, || sleep(Duration::from_micros(200))));
                scope.spawn(move || mix(number, yield_now));
                scope.spawn(move || {
                    mix(number, || {
                        *mutex.lock().unwrap() += 1;
                        let _permit = permits.acquire();
                        yield_now();
                        count.fetch_add(1, Ordering::Relaxed);
                    });
                });
                let (send, receive) = sync_channel(1);
                scope.spawn(move || mix(number, || send.send(number).unwrap()));
                scope.spawn(move || mix(number, || assert_eq!(receive.recv(), Ok(number))));
                let mut stream = TcpStream::connect(address).unwrap();
                let (mut peer, _) = listener.accept().unwrap();
                scope.spawn(move || {
                    let mut one = [0];
                    while peer.read(&mut one).unwrap() > 0 {
                        keep_thread(number);
                        peer.write_all(&one).unwrap();
                    }
                });
                scope.spawn(move || {
                    let byte = number as u8;
                    let stream = std::cell::RefCell::new(&mut stream);
                    mix(number, || {
                        let mut stream = stream.borrow_mut();
                        stream.write_all(&[byte]).unwrap();
                        let mut one = [0];
                        stream.read_exact(&mut one).unwrap();
                        assert_eq!(one, [byte]);
                    });
                });
                scope.spawn(move || mix(number, || blocking(|| thread::sleep(LONG / 10))));
            }
        });
        assert_eq!(*mutex.lock().unwrap(), count.into_inner());
    });
}

fn spawned_fibers_end_when_workers_are_taken(place: Place) {
    place.runtime_of(1).run(|| {
        for number in 0..20 {
            let fibers: Vec<_> = (0..8)
                .map(|fiber| {
                    spawn(move || {
                        OWN.set(fiber);
                        keep_thread(fiber + number);
                        own()
                    })
                })
                .collect();
            let ended: Vec<_> = fibers
                .into_iter()
                .map(|fiber| fiber.join().unwrap())
                .collect();
            assert_eq!(ended, Vec::from_iter(0..8));
        }
    });
}

fn a_panic_unwinds_a_fiber_whose_worker_was_taken(place: Place) {
    struct KeepsThread;

    impl Drop for KeepsThread {
        fn drop(&mut self) {
            keep_thread(0);
            sleep(LONG);
            keep_thread(1);
        }
    }

    place.runtime_of(1).run(|| {
        let ticks = AtomicUsize::new(0);
        scope(|scope| {
            let ticking = scope.spawn(|| {
                loop {
                    sleep(Duration::from_millis(1));
                    ticks.fetch_add(1, Ordering::Relaxed);
                }
            });
            for number in 0..4 {
                let ended = scope.spawn(move || {
                    let _keeps = KeepsThread;
                    keep_thread(number);
                    if number > 0 {
                        std::panic::resume_unwind(Box::new(number));
                    }
                });
                let payload = ended.join().err();
                let payload = payload.map(|payload| *payload.downcast::<usize>().unwrap());
                assert_eq!(payload, (number > 0).then_some(number));
            }
            ticking.cancel();
            let _ = ticking.join();
        });
        assert!(ticks.into_inner() > 0);
    });
}

fn a_fiber_whose_worker_was_taken_is_cancelled(place: Place) {
    place.runtime_of(1).run(|| {
        let fiber = spawn(|| {
            loop {
                keep_thread(1);
                sleep(LONG);
            }
        });
        sleep(LONG);
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<uthread::thread::Cancelled>());
        let timed_out = timeout(LONG, || {
            loop {
                keep_thread(0);
                yield_now();
            }
        });
        assert_eq!(timed_out, Err::<(), _>(uthread::time::Elapsed));
    });
}

fn the_stack_of_a_fiber_whose_worker_was_taken_is_left_alone(place: Place) {
    const BYTES: usize = 64 << 10;

    /// Blocks below what the fiber has used before.
    #[inline(never)]
    fn block_deeply() -> bool {
        let on_the_stack = black_box([7_u8; BYTES]);
        // A worker visits its fibers every second, and trims at the second visit.
        thread::sleep(Duration::from_millis(3200));
        black_box(&on_the_stack).iter().all(|byte| *byte == 7)
    }

    place.runtime_of(1).run(|| {
        let fiber = spawn(|| {
            yield_now();
            block_deeply()
        });
        let ticking = spawn(|| {
            loop {
                sleep(LONG);
            }
        });
        assert!(fiber.join().unwrap());
        ticking.cancel();
        assert!(ticking.join().is_err());
    });
}
