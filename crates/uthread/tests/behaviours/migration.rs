//! With thread-local storage of their own, everything that waits for the worker of a fiber that
//! computes continues on another thread, and nothing is lost.

use std::hint;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::behaviours;
use crate::harness::place::Place;
use crate::own_tls::WITH_OWN_TLS;
use crate::support::{FREE, HANG, eventually, pass_a_round};
use rustix::thread::{Pid, gettid};
use uthread::net::{TcpListener, TcpStream};
use uthread::thread::Thread;
use uthread::{Runtime, blocking, current, scope, sleep, spawn, yield_now};

behaviours![(
    WITH_OWN_TLS,
    [
        a_fiber_that_can_go_on_does,
        a_sleep_ends_in_time,
        a_result_that_arrives_is_taken,
        a_fiber_that_the_kept_worker_woke_itself_goes_on,
        no_result_is_lost_or_taken_twice,
        a_thread_outside_wakes_a_fiber_while_all_sleep
    ]
)];

/// Returns the worker that runs the caller.
fn worker() -> Pid {
    gettid()
}

/// Keeps the worker until `done`.
fn keep_until(done: &AtomicBool) {
    let start = Instant::now();
    while !done.load(Ordering::Acquire) {
        assert!(start.elapsed() < HANG, "no worker took over");
        hint::spin_loop();
    }
}

/// Lets `waits` begin on the worker of the caller, then keeps that one until it has ended
/// elsewhere. `waits` is notified when the worker is kept, and reports when it waits.
fn goes_on_elsewhere(place: Place, waits: impl FnOnce(&dyn Fn(), &Arc<AtomicBool>) + Send) {
    let runtime = place.runtime();
    runtime.run(|| {
        let [other_busy, other_free, waiting, over] = [(); 4].map(|()| AtomicBool::new(false));
        let kept = Arc::new(AtomicBool::new(false));
        let workers = Mutex::new(Vec::new());
        scope(|scope| {
            scope.spawn(|| {
                other_busy.store(true, Ordering::Release);
                keep_until(&other_free);
            });
            while !other_busy.load(Ordering::Acquire) {
                yield_now();
            }
            scope.spawn(|| {
                workers.lock().unwrap().push(worker());
                waits(&|| waiting.store(true, Ordering::Release), &kept);
                workers.lock().unwrap().push(worker());
                over.store(true, Ordering::Release);
            });
            while !waiting.load(Ordering::Acquire) {
                yield_now();
            }
            pass_a_round(); // It waits, and the kernel knows.
            workers.lock().unwrap().push(worker());
            other_free.store(true, Ordering::Release);
            kept.store(true, Ordering::Release);
            keep_until(&over);
        });
        let workers = workers.into_inner().unwrap();
        assert_ne!(
            workers[1], workers[2],
            "the fiber did not continue elsewhere"
        );
    });
}

fn a_fiber_that_can_go_on_does(place: Place) {
    goes_on_elsewhere(place, |waiting, kept| {
        waiting();
        while !kept.load(Ordering::Acquire) {
            yield_now();
        }
    });
}

fn a_sleep_ends_in_time(place: Place) {
    goes_on_elsewhere(place, |waiting, kept| {
        waiting();
        // Repeated if it ends too early, while the other fiber waits for a CPU.
        loop {
            sleep(Duration::from_millis(20));
            if kept.load(Ordering::Acquire) {
                break;
            }
        }
    });
}

fn a_result_that_arrives_is_taken(place: Place) {
    goes_on_elsewhere(place, |waiting, kept| {
        let listener = TcpListener::bind(FREE).unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let kept = Arc::clone(kept);
        let writer = thread::spawn(move || {
            keep_until(&kept);
            client.write_all(b"late").unwrap();
        });
        waiting();
        let mut buffer = [0; 4];
        server.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"late");
        blocking(|| writer.join()).unwrap();
    });
}

/// Wakes a fiber that the worker would run next, if it got there.
fn a_fiber_that_the_kept_worker_woke_itself_goes_on(place: Place) {
    let runtime = place.runtime();
    runtime.run(|| {
        let sleeper = Arc::new(Mutex::new(None::<Thread>));
        let over = Arc::new(AtomicBool::new(false));
        let parked = {
            let (sleeper, over) = (Arc::clone(&sleeper), Arc::clone(&over));
            spawn(move || {
                *sleeper.lock().unwrap() = Some(current());
                uthread::thread::park();
                over.store(true, Ordering::Release);
            })
        };
        let sleeper = loop {
            if let Some(sleeper) = sleeper.lock().unwrap().take() {
                break sleeper;
            }
            yield_now();
        };
        sleeper.unpark();
        keep_until(&over);
        parked.join().unwrap();
    });
}

/// Combines everything: connections whose server computes between its calls, so that workers take
/// fibers and results from each other all the time.
fn no_result_is_lost_or_taken_twice(place: Place) {
    let runtime = place.runtime_of(4);
    // On a busy machine one worker may run all of them before the others get a CPU: again and again
    // beside the threads by which the kernel polls.
    eventually("a worker takes fibers of another one", || {
        serve_many(&runtime);
        runtime.metrics().total().steals > 0 || place.is_polling()
    });
    eventually("every operation and fiber has ended", || {
        let metrics = runtime.metrics().total();
        metrics.submissions == metrics.completions && metrics.fibers == metrics.ended
    });
}

fn serve_many(runtime: &Runtime) {
    const CONNECTIONS: usize = 50;
    const ROUNDS: u32 = 200;
    let served = Arc::new(AtomicUsize::new(0));
    runtime.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        let server = {
            let served = Arc::clone(&served);
            spawn(move || {
                let fibers: Vec<_> = (0..CONNECTIONS)
                    .map(|_| {
                        let (stream, _) = listener.accept().unwrap();
                        let served = Arc::clone(&served);
                        spawn(move || serve(stream, &served))
                    })
                    .collect();
                fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            })
        };
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    for round in 0..ROUNDS {
                        stream.write_all(&round.to_ne_bytes()).unwrap();
                        let mut answer = [0; 4];
                        stream.read_exact(&mut answer).unwrap();
                        assert_eq!(u32::from_ne_bytes(answer), round + 1);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|fiber| fiber.join().unwrap());
        server.join().unwrap();
    });
    assert_eq!(
        served.load(Ordering::Relaxed),
        CONNECTIONS * ROUNDS as usize
    );
}

/// Catches a fiber woken from outside that waits beside workers that all sleep.
fn a_thread_outside_wakes_a_fiber_while_all_sleep(place: Place) {
    let runtime = place.runtime();
    for _ in 0..50 {
        let parked = Arc::new(Mutex::new(None));
        let handle = {
            let parked = Arc::clone(&parked);
            runtime.spawn(move || {
                *parked.lock().unwrap() = Some(current());
                uthread::thread::park();
            })
        };
        eventually("it parks", || parked.lock().unwrap().is_some());
        parked.lock().unwrap().take().unwrap().unpark();
        handle.join().unwrap();
    }
}

fn serve(mut stream: TcpStream, served: &AtomicUsize) {
    let mut request = [0; 4];
    while stream.read_exact(&mut request).is_ok() {
        let mut number = u32::from_ne_bytes(request);
        for _ in 0..number % 7 * 100 {
            number = hint::black_box(number);
        }
        stream.write_all(&(number + 1).to_ne_bytes()).unwrap();
        served.fetch_add(1, Ordering::Relaxed);
    }
}
