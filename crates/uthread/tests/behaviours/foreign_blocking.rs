//! A fiber with thread-local storage of its own may block its worker's thread anywhere: the others
//! go on elsewhere.

use std::fs::File;
use std::io::{Read, Write};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, mpsc as native};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixtures::fiber_or_thread::InDrop;
use crate::harness::behaviours;
use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::own_tls::WITH_OWN_TLS;
use crate::support::{FREE, HANG, eventually, limit_descriptors};
use uthread::net::{TcpListener, TcpStream};
use uthread::thread::park;
use uthread::{Runtime, blocking, scope, shield, sleep, spawn, yield_now};

behaviours![(
    WITH_OWN_TLS,
    [
        a_channel_of_std_joins_fibers_of_one_worker,
        a_lock_of_std_is_held_across_a_wait,
        a_condvar_and_a_barrier_of_std_join_fibers,
        an_initializer_waits_for_another_fiber,
        a_thread_of_std_is_joined,
        parked_threads_of_std_are_fibers,
        fibers_tick_beside_one_that_sleeps,
        fibers_tick_beside_one_that_computes,
        calls_go_on_that_began_on_a_blocked_worker,
        many_block_at_once,
        blocking_calls_run_on_the_fibers_own_thread,
        blocking_calls_hold_up_nobody,
        a_fiber_that_blocks_delays_the_end_of_its_runtime,
        fibers_that_block_are_replaced_until_their_runtime_has_ended,
        a_runtime_that_ends_waits_for_a_fiber_that_blocks,
        no_descriptor_is_needed_to_go_on,
        no_more_workers_are_active_than_were_asked_for
    ]
)];

/// Runs `action` in a fiber of a runtime with one worker.
fn on_one<T: Send>(place: Place, action: impl FnOnce(&Runtime) -> T + Send) -> T {
    let runtime = place.runtime_of(1);
    runtime.run(|| action(&runtime))
}

/// Counts the waits of a fiber that waits again and again.
#[derive(Default)]
struct Ticks(AtomicUsize);

impl Ticks {
    /// Repeats `call` until the other fiber has waited several times meanwhile.
    fn pass_during(&self, mut call: impl FnMut()) {
        const TICKS: usize = 20;
        let (before, begin) = (self.0.load(Ordering::Relaxed), Instant::now());
        while self.0.load(Ordering::Relaxed) < before + TICKS {
            assert!(begin.elapsed() < HANG, "the other fiber does not go on");
            call();
        }
    }
}

/// Runs `action` on a runtime of one worker, beside a fiber that waits again and again.
fn beside_ticks(place: Place, action: impl FnOnce(&Ticks) + Send) {
    on_one(place, |_| {
        let (ticks, ends) = (Ticks::default(), AtomicBool::new(false));
        scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(1));
                    ticks.0.fetch_add(1, Ordering::Relaxed);
                }
            });
            let _ends = InDrop(|| ends.store(true, Ordering::Relaxed));
            action(&ticks);
        });
    });
}

fn a_channel_of_std_joins_fibers_of_one_worker(place: Place) {
    const MESSAGES: u32 = 20;
    on_one(place, |_| {
        let (send, receive) = native::sync_channel(0);
        let (answer, answers) = native::channel();
        let echo = spawn(move || {
            receive
                .iter()
                .for_each(|number| answer.send(number).unwrap())
        });
        for number in 0..MESSAGES {
            send.send(number).unwrap();
            assert_eq!(answers.recv_timeout(HANG), Ok(number));
        }
        drop(send);
        echo.join().unwrap();
    });
}

fn a_lock_of_std_is_held_across_a_wait(place: Place) {
    const FIBERS: u32 = 5;
    on_one(place, |_| {
        let count = Mutex::new(0);
        scope(|scope| {
            for _ in 0..FIBERS {
                scope.spawn(|| {
                    let mut count = count.lock().unwrap();
                    sleep(Duration::from_millis(1));
                    *count += 1;
                });
            }
        });
        assert_eq!(count.into_inner().unwrap(), FIBERS);
    });
}

fn a_condvar_and_a_barrier_of_std_join_fibers(place: Place) {
    const FIBERS: usize = 4;
    on_one(place, |_| {
        let (ready, condvar) = (Mutex::new(0), Condvar::new());
        let barrier = Barrier::new(FIBERS);
        scope(|scope| {
            for _ in 0..FIBERS {
                scope.spawn(|| {
                    let mut count = ready.lock().unwrap();
                    *count += 1;
                    condvar.notify_all();
                    let all = condvar.wait_timeout_while(count, HANG, |count| *count < FIBERS);
                    drop(all.unwrap());
                    barrier.wait();
                });
            }
        });
    });
}

fn an_initializer_waits_for_another_fiber(place: Place) {
    on_one(place, |_| {
        let (send, receive) = native::channel();
        let receive = Mutex::new(receive);
        let lazy = LazyLock::new(|| {
            sleep(Duration::from_millis(2));
            receive.lock().unwrap().recv_timeout(HANG).unwrap()
        });
        let begun = AtomicUsize::new(0);
        let value = || {
            begun.fetch_add(1, Ordering::Relaxed);
            *lazy
        };
        scope(|scope| {
            let values: Vec<_> = (0..3).map(|_| scope.spawn(value)).collect();
            while begun.load(Ordering::Relaxed) < values.len() {
                yield_now();
            }
            send.send(7).unwrap();
            for value in values {
                assert_eq!(value.join().unwrap(), 7);
            }
        });
    });
}

fn a_thread_of_std_is_joined(place: Place) {
    on_one(place, |runtime| {
        thread::scope(|scope| {
            // The thread waits for a fiber that has to start on the blocked worker's runtime.
            let fiber = scope.spawn(|| runtime.spawn(|| 7).join().unwrap());
            assert_eq!(fiber.join().unwrap(), 7);
        });
    });
}

fn parked_threads_of_std_are_fibers(place: Place) {
    on_one(place, |_| {
        let (send, receive) = native::channel();
        let sleeper = spawn(move || {
            send.send(thread::current()).unwrap();
            thread::park_timeout(HANG);
        });
        let begin = Instant::now();
        receive.recv_timeout(HANG).unwrap().unpark();
        sleeper.join().unwrap();
        assert!(begin.elapsed() < HANG);
    });
}

fn fibers_tick_beside_one_that_sleeps(place: Place) {
    beside_ticks(place, |ticks| {
        ticks.pass_during(|| thread::sleep(Duration::from_millis(50)));
    });
}

fn fibers_tick_beside_one_that_computes(place: Place) {
    beside_ticks(place, |ticks| ticks.pass_during(std::hint::spin_loop));
}

/// Checks that operations that were begun, or only gathered, on the worker are submitted,
/// completed, timed out and cancelled meanwhile.
fn calls_go_on_that_began_on_a_blocked_worker(place: Place) {
    on_one(place, |_| {
        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = std::net::TcpStream::connect(address).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut idle = listener_and_stream();
        let mut silent = listener_and_stream();
        let (begin, begun) = native::channel();
        scope(|scope| {
            let answered = scope.spawn(|| {
                begin.send(()).unwrap();
                let mut message = [0; 5];
                stream.read_exact(&mut message).unwrap();
                stream.write_all(&message).unwrap();
            });
            let timed_out = scope.spawn(|| {
                let timeout = Some(Duration::from_millis(20));
                idle.1.set_read_timeout(timeout).unwrap();
                idle.1.read(&mut [0]).unwrap_err().kind()
            });
            let cancelled = scope.spawn(|| silent.1.read(&mut [0]).unwrap_err().kind());
            // All have begun to wait, on this worker.
            yield_now();
            begun.recv_timeout(HANG).unwrap();
            let thread = thread::spawn(move || {
                client.write_all(b"hello").unwrap();
                client.set_read_timeout(Some(HANG)).unwrap();
                client.read_exact(&mut [0; 5]).expect("an echo");
                drop(client);
            });
            thread.join().unwrap();
            cancelled.cancel();
            // The echo comes before its fiber has ended.
            eventually("all go on", || {
                answered.is_finished() && timed_out.is_finished() && cancelled.is_finished()
            });
            assert_eq!(timed_out.join().unwrap(), std::io::ErrorKind::WouldBlock);
        });
    });
}

fn listener_and_stream() -> (TcpListener, TcpStream) {
    let listener = TcpListener::bind(FREE).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener, stream)
}

fn many_block_at_once(place: Place) {
    const FIBERS: usize = 100;
    on_one(place, |_| {
        let barrier = Barrier::new(FIBERS);
        scope(|scope| {
            for _ in 0..FIBERS {
                scope.spawn(|| barrier.wait());
            }
        });
    });
}

fn blocking_calls_run_on_the_fibers_own_thread(place: Place) {
    on_one(place, |_| {
        let own = thread::current().id();
        assert_eq!(blocking(|| thread::current().id()), own);
        let panicked = catch_unwind(|| blocking(|| panic!("in a blocking call")));
        assert!(panicked.is_err());
        // A call of uthread suspends the fiber.
        let (send, receive) = uthread::sync::mpsc::channel();
        let other = spawn(move || send.send(7).unwrap());
        assert_eq!(blocking(move || receive.recv().unwrap()), 7);
        other.join().unwrap();
    });
}

fn blocking_calls_hold_up_nobody(place: Place) {
    const FIBERS: usize = 20;
    beside_ticks(place, |ticks| {
        // Each call waits for all others.
        let (begun, ended) = (&Barrier::new(FIBERS), &Barrier::new(FIBERS));
        scope(|scope| {
            for number in 0..FIBERS {
                scope.spawn(move || {
                    blocking(|| {
                        begun.wait();
                        if number == 0 {
                            ticks.pass_during(|| thread::sleep(Duration::from_millis(5)));
                        }
                        ended.wait();
                    });
                });
            }
        });
    });
}

fn a_fiber_that_blocks_delays_the_end_of_its_runtime(place: Place) {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    let before = ENDED.load(Ordering::SeqCst);
    let runtime = place.runtime_of(1);
    let (begin, begun) = native::channel();
    drop(runtime.spawn(move || {
        begin.send(()).unwrap();
        thread::sleep(Duration::from_millis(50));
        ENDED.fetch_add(1, Ordering::SeqCst);
    }));
    begun.recv_timeout(HANG).unwrap();
    drop(runtime);
    assert!(ENDED.load(Ordering::SeqCst) > before);
}

/// Catches a worker whose fiber has blocked and goes on, and which stays active beside its
/// replacement.
fn no_more_workers_are_active_than_were_asked_for(place: Place) {
    const FIBERS: usize = 8;
    on_one(place, |_| {
        let barrier = Barrier::new(FIBERS);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        scope(|scope| {
            for _ in 0..FIBERS {
                scope.spawn(|| {
                    barrier.wait();
                    // From here on the workers return.
                    sleep(Duration::from_millis(20));
                    for _ in 0..2000 {
                        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::hint::spin_loop();
                        running.fetch_sub(1, Ordering::SeqCst);
                        yield_now();
                    }
                });
            }
        });
        // The monitor may take a worker for stuck that does not get a CPU.
        assert!(most.into_inner() <= 2);
    });
}

/// Blocks each fiber, once it is cancelled, until another one goes on that has to wait first.
fn fibers_that_block_are_replaced_until_their_runtime_has_ended(place: Place) {
    const FIBERS: usize = 4;
    let runtime = place.runtime_of(1);
    let (send, receive) = native::channel();
    let receive = Arc::new(Mutex::new(receive));
    let blocking = (0..FIBERS).map(|_| {
        let receive = Arc::clone(&receive);
        place.spawn_waiting(&runtime, move || {
            let _ = catch_unwind(|| sleep(HANG));
            receive.lock().unwrap().recv_timeout(HANG).unwrap();
        })
    });
    let blocking: Vec<_> = blocking.collect();
    let releasing = place.spawn_waiting(&runtime, move || {
        let _ = catch_unwind(|| sleep(HANG));
        shield(|| {
            sleep(Duration::from_millis(10));
            (0..FIBERS).for_each(|_| send.send(()).unwrap());
        });
    });
    drop(runtime);
    for fiber in blocking.into_iter().chain([releasing]) {
        fiber.join().unwrap();
    }
}

/// Catches a runtime that stands still for two seconds but for a fiber that runs without its
/// worker, and abandons those that wait for this one.
fn a_runtime_that_ends_waits_for_a_fiber_that_blocks(place: Place) {
    const LONG: Duration = Duration::from_millis(2600);
    let runtime = place.runtime_of(1);
    let is_over = Arc::new(AtomicBool::new(false));
    let awaited = Arc::clone(&is_over);
    let waiting = place.spawn_waiting(&runtime, move || {
        shield(|| {
            while !awaited.load(Ordering::Relaxed) {
                park();
            }
        });
    });
    let thread = waiting.thread().clone();
    let blocking = place.spawn_waiting(&runtime, move || {
        let _ = catch_unwind(|| sleep(HANG));
        thread::sleep(LONG);
        is_over.store(true, Ordering::Relaxed);
        thread.unpark();
    });
    drop(runtime);
    blocking.join().unwrap();
    waiting.join().unwrap();
}

fn no_descriptor_is_needed_to_go_on(place: Place) {
    const FIBERS: usize = 20;
    alone(|| {
        let runtime = place.runtime_of(1);
        let (send, receive) = native::channel();
        let receive = Arc::new(Mutex::new(receive));
        limit_descriptors(64);
        let mut taken: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        // The monitor needs one.
        taken.pop();
        let block = |_| {
            let receive = Arc::clone(&receive);
            runtime.spawn(move || receive.lock().unwrap().recv_timeout(HANG).unwrap())
        };
        let blocked: Vec<_> = (0..FIBERS).map(block).collect();
        let releasing = runtime.spawn(move || (0..FIBERS).for_each(|_| send.send(()).unwrap()));
        for fiber in blocked.into_iter().chain([releasing]) {
            fiber.join().unwrap();
        }
        drop(taken);
    });
}
