//! Cancelling a fiber by its handle: its wait ends, with an error if the call can return one, and
//! other fibers are not affected, except those of its scopes.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc as native};
use std::time::Duration;

use rustix::io::Errno;
use uthread::net::TcpListener;
use uthread::sync::{broadcast, mpmc, mpsc, oneshot, promise, watch};
use uthread::thread::{Cancelled, is_cancelled, park};
use uthread::{JoinHandle, blocking, join, scope, sleep, spawn, try_scope, yield_now};

use crate::harness::place::Place;
use crate::harness::{Gap, IN_FIBERS, ON_ONE_WORKER, OUTSIDE, behaviours};
use crate::support::{FREE, HOUR, eventually, pair};

behaviours![
    (
        IN_FIBERS,
        [
            a_call_with_an_error_returns_it,
            a_call_without_an_error_unwinds_its_fiber,
            a_loop_that_never_waits_ends,
            later_calls_fail_at_once,
            a_fiber_that_ignores_errors_is_unwound_in_the_end,
            a_loop_that_only_computes_can_look,
            a_fiber_that_ends_by_itself_has_its_value,
            no_other_fiber_is_cancelled,
            to_cancel_twice_or_too_late_changes_nothing,
            a_socket_can_be_used_after_its_reader_was_cancelled,
            a_fiber_that_waits_for_another_is_unwound,
            fibers_of_a_scope_end_with_it,
            fibers_spawned_in_a_cancelled_scope_end_with_it,
            fibers_spawned_in_a_cancelled_try_scope_end_with_it,
            a_fork_ends_with_its_caller,
            a_scope_does_not_panic_for_a_child_that_was_cancelled,
            a_call_on_another_thread_ends_by_itself,
            thousands_can_be_cancelled,
            a_fiber_can_cancel_itself_by_its_handle,
        ]
    ),
    (
        &[
            OUTSIDE,
            Gap(Place::is_of_threads, "a thread starts at once")
        ],
        [a_fiber_that_has_not_started_never_does]
    ),
    (
        ON_ONE_WORKER,
        [a_connection_that_comes_with_the_cancellation_is_not_lost]
    ),
];

/// Runs `call` in a fiber, and cancels that when it waits, or is about to.
fn cancelled<T: Send + 'static>(
    place: Place,
    call: impl FnOnce() -> T + Send + 'static,
) -> std::thread::Result<T> {
    let runtime = place.runtime();
    let waiting = place.spawn_waiting(&runtime, call);
    waiting.cancel();
    waiting.join()
}

fn is_cut_off<T>(result: std::thread::Result<T>) -> bool {
    result.is_err_and(|payload| payload.is::<Cancelled>())
}

fn errno<T>(result: io::Result<T>) -> Option<Errno> {
    result.err().and_then(|error| Errno::from_io_error(&error))
}

fn a_call_with_an_error_returns_it(place: Place) {
    let listener = TcpListener::bind(FREE).unwrap();
    let (mut reading, _peer) = pair();
    let (mut writing, _other) = pair();
    let (pipe, _end) = io::pipe().unwrap();
    let mut pipe = uthread::fs::File::from(OwnedFd::from(pipe));
    let calls: [Box<dyn FnOnce() -> io::Result<usize> + Send>; 4] = [
        Box::new(move || listener.accept().map(|_| 0)),
        Box::new(move || reading.read(&mut [0; 16])),
        Box::new(move || {
            loop {
                writing.write_all(&[0; 1 << 16])?;
            }
        }),
        Box::new(move || pipe.read(&mut [0; 16])),
    ];
    for call in calls {
        assert_eq!(
            errno(cancelled(place, call).unwrap()),
            Some(Errno::CANCELED)
        );
    }
}

fn a_call_without_an_error_unwinds_its_fiber(place: Place) {
    assert!(is_cut_off(cancelled(place, || sleep(HOUR))));
    assert!(is_cut_off(cancelled(place, || {
        loop {
            park();
        }
    })));
    let (_sender, receiver) = mpsc::channel::<()>();
    assert!(is_cut_off(cancelled(place, move || receiver.recv())));
    let (sender, _receiver) = mpsc::sync_channel::<()>(0);
    assert!(is_cut_off(cancelled(place, move || sender.send(()))));
    let (_sender, receiver) = mpmc::channel::<()>();
    assert!(is_cut_off(cancelled(place, move || receiver.recv())));
    let (_sender, receiver) = oneshot::channel::<()>();
    assert!(is_cut_off(cancelled(place, move || receiver
        .recv()
        .is_ok())));
    let (_promise, waiter) = promise::channel::<()>();
    assert!(is_cut_off(cancelled(place, move || waiter.wait().is_ok())));
    let (_sender, mut receiver) = broadcast::channel::<()>(1);
    assert!(is_cut_off(cancelled(place, move || receiver.recv())));
    let (_sender, mut receiver) = watch::channel(());
    assert!(is_cut_off(cancelled(place, move || receiver.changed())));
}

fn a_loop_that_never_waits_ends(place: Place) {
    place.run(|| {
        let (sender, receiver) = mpsc::channel();
        let yielding = spawn(move || {
            sender.send(()).unwrap();
            loop {
                yield_now();
            }
        });
        receiver.recv().unwrap();
        yielding.cancel();
        assert!(is_cut_off::<()>(yielding.join()));
    });
}

fn later_calls_fail_at_once(place: Place) {
    let (mut stream, mut peer) = pair();
    peer.write_all(b"there is something").unwrap();
    let later = cancelled(place, move || {
        let first = TcpListener::bind(FREE).unwrap().accept().map(|_| 0);
        [
            first,
            stream.read(&mut [0; 4]),
            stream.write(b"x"),
            uthread::fs::read("Cargo.toml").map(|bytes| bytes.len()),
        ]
        .map(errno)
    });
    assert_eq!(later.unwrap(), [Some(Errno::CANCELED); 4]);
}

fn a_fiber_that_ignores_errors_is_unwound_in_the_end(place: Place) {
    let listener = TcpListener::bind(FREE).unwrap();
    assert!(is_cut_off(cancelled(place, move || {
        loop {
            let _ = listener.accept();
        }
    })));
}

fn a_loop_that_only_computes_can_look(place: Place) {
    place.run(|| {
        let (sender, running) = native::channel();
        let computing = spawn(move || {
            sender.send(()).unwrap();
            while !is_cancelled() {
                std::hint::spin_loop();
            }
            "ended"
        });
        // On one worker it begins only when this fiber waits, and then keeps the worker.
        let cancels = |fiber: &JoinHandle<_>| fiber.cancel();
        std::thread::scope(|scope| {
            let fiber = &computing;
            scope.spawn(move || {
                running.recv().unwrap();
                cancels(fiber);
            });
            while !computing.is_finished() {
                yield_now();
            }
        });
        assert_eq!(computing.join().unwrap(), "ended");
    });
}

fn a_fiber_that_ends_by_itself_has_its_value(place: Place) {
    let value = cancelled(place, || {
        let refused = TcpListener::bind(FREE).unwrap().accept().is_err();
        (refused, "a value")
    });
    assert_eq!(value.unwrap(), (true, "a value"));
}

fn no_other_fiber_is_cancelled(place: Place) {
    place.run(|| {
        let (mut ours, mut peer) = pair();
        let kept = spawn(move || {
            let mut bytes = [0; 4];
            ours.read_exact(&mut bytes).map(|()| bytes)
        });
        let ended = spawn(|| sleep(HOUR));
        yield_now();
        ended.cancel();
        assert!(is_cut_off(ended.join()));
        peer.write_all(b"kept").unwrap();
        assert_eq!(&kept.join().unwrap().unwrap(), b"kept");
        assert!(!is_cancelled());
    });
}

fn to_cancel_twice_or_too_late_changes_nothing(place: Place) {
    place.run(|| {
        let sleeping = spawn(|| sleep(HOUR));
        sleeping.cancel();
        sleeping.cancel();
        assert!(is_cut_off(sleeping.join()));
        let ended = spawn(|| 7);
        while !ended.is_finished() {
            yield_now();
        }
        ended.cancel();
        assert_eq!(ended.join().unwrap(), 7);
    });
}

fn a_socket_can_be_used_after_its_reader_was_cancelled(place: Place) {
    let runtime = place.runtime();
    let (ours, mut peer) = pair();
    let ours = Arc::new(ours);
    for round in 0..5_u8 {
        let theirs = Arc::clone(&ours);
        let reading = place.spawn_waiting(&runtime, move || (&*theirs).read(&mut [0; 16]));
        reading.cancel();
        assert_eq!(errno(reading.join().unwrap()), Some(Errno::CANCELED));
        peer.write_all(&[round]).unwrap();
        let theirs = Arc::clone(&ours);
        let read = runtime.run(move || {
            let mut byte = [0xff];
            (&*theirs).read_exact(&mut byte).map(|()| byte[0])
        });
        assert_eq!(read.unwrap(), round, "a byte went to the cancelled fiber");
    }
}

fn a_fiber_that_waits_for_another_is_unwound(place: Place) {
    let runtime = place.runtime();
    let (sender, receiver) = native::channel();
    let (end, ended) = mpsc::channel();
    let joining = place.spawn_waiting(&runtime, move || {
        let other = spawn(move || {
            let waited = panic::catch_unwind(AssertUnwindSafe(|| ended.recv()));
            sender
                .send(waited.is_ok_and(|waited| waited.is_ok()))
                .unwrap();
        });
        other.join()
    });
    joining.cancel();
    assert!(is_cut_off(joining.join()));
    end.send(()).unwrap();
    assert!(receiver.recv().unwrap(), "the other one was cancelled too");
}

/// Counts its drop.
struct Witness(Arc<AtomicUsize>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn fibers_of_a_scope_end_with_it(place: Place) {
    let dropped = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&dropped);
    assert!(is_cut_off(cancelled(place, move || {
        scope(|outer| {
            let witness = Witness(Arc::clone(&theirs));
            outer.spawn(move || {
                let _witness = witness;
                scope(|inner| {
                    for _ in 0..3 {
                        let witness = Witness(Arc::clone(&theirs));
                        inner.spawn(move || {
                            let _witness = witness;
                            sleep(HOUR);
                        });
                    }
                });
            });
        });
    })));
    let dropped = dropped.load(Ordering::Relaxed);
    assert!(dropped == 4 || dropped == 1, "{dropped} were dropped");
}

fn a_fork_ends_with_its_caller(place: Place) {
    assert!(is_cut_off(cancelled(place, || {
        join(|| sleep(Duration::from_millis(1)), || sleep(HOUR))
    })));
}

fn a_scope_does_not_panic_for_a_child_that_was_cancelled(place: Place) {
    let value = place.run(|| {
        scope(|scope| {
            let child = scope.spawn(|| sleep(HOUR));
            child.cancel();
            "a value"
        })
    });
    assert_eq!(value, "a value");
}

fn a_call_on_another_thread_ends_by_itself(place: Place) {
    let runtime = place.runtime();
    let (sender, receiver) = native::channel();
    let (release, released) = native::channel();
    let calling = runtime.spawn(move || {
        let value = blocking(move || {
            sender.send(()).unwrap();
            released.recv().unwrap()
        });
        (value, uthread::fs::read("Cargo.toml").is_err())
    });
    receiver.recv().unwrap();
    calling.cancel();
    release.send("its value").unwrap();
    assert_eq!(calling.join().unwrap(), ("its value", true));
}

fn thousands_can_be_cancelled(place: Place) {
    let count = if place.is_of_threads() { 200 } else { 2000 };
    place.run(|| {
        let listener = Arc::new(TcpListener::bind(FREE).unwrap());
        let fibers: Vec<_> = (0..count)
            .map(|index| {
                let listener = Arc::clone(&listener);
                spawn(move || match index % 3 {
                    0 => listener.accept().map(|_| ()),
                    1 => {
                        sleep(HOUR);
                        Ok(())
                    }
                    _ => loop {
                        park();
                    },
                })
            })
            .collect();
        (0..10).for_each(|_| yield_now());
        fibers.iter().for_each(JoinHandle::cancel);
        for fiber in fibers {
            match fiber.join() {
                Ok(refused) => assert_eq!(errno(refused), Some(Errno::CANCELED)),
                Err(payload) => assert!(payload.is::<Cancelled>()),
            }
        }
        assert_eq!(listener.take_error().unwrap().map(|_| ()), None);
    });
}

fn a_fiber_can_cancel_itself_by_its_handle(place: Place) {
    place.run(|| {
        let (sender, receiver) = mpsc::channel::<JoinHandle<()>>();
        let (result, seen) = mpsc::channel();
        let fiber = spawn(move || {
            let own = receiver.recv().unwrap();
            own.cancel();
            result.send(is_cancelled()).unwrap();
            sleep(HOUR);
        });
        sender.send(fiber).unwrap();
        assert!(seen.recv().unwrap());
        assert!(seen.recv().is_err(), "the fiber continues");
    });
}

fn a_fiber_that_has_not_started_never_does(place: Place) {
    place.run(|| {
        let witness = Arc::new(());
        let theirs = Arc::clone(&witness);
        let fiber = spawn(move || drop(theirs));
        fiber.cancel();
        let joined = fiber.join();
        // With a second worker it may have started already.
        assert!(joined.is_ok() && place.has_more_workers() || is_cut_off(joined));
        assert_eq!(Arc::strong_count(&witness), 1);
    });
}

fn a_connection_that_comes_with_the_cancellation_is_not_lost(place: Place) {
    place.run(|| {
        let listener = Arc::new(TcpListener::bind(FREE).unwrap());
        let address = listener.local_addr().unwrap();
        let theirs = Arc::clone(&listener);
        let started = Arc::new(AtomicBool::new(false));
        let starts = Arc::clone(&started);
        let accepting = spawn(move || {
            starts.store(true, Ordering::Relaxed);
            let accepted = theirs.accept().map(|(stream, _)| stream);
            (accepted, errno(theirs.accept()))
        });
        while !started.load(Ordering::Relaxed) {
            yield_now();
        }
        // Without a turn of the worker in between, so that both are there at once.
        let peer = std::net::TcpStream::connect(address).unwrap();
        accepting.cancel();
        let (accepted, after) = accepting.join().unwrap();
        assert_eq!(after, Some(Errno::CANCELED));
        let accepted = accepted.unwrap_or_else(|refusal| {
            assert_eq!(Errno::from_io_error(&refusal), Some(Errno::CANCELED));
            listener.accept().unwrap().0
        });
        assert_eq!(accepted.peer_addr().unwrap(), peer.local_addr().unwrap());
    });
}

/// Calls a function when it is dropped.
struct AtEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn fibers_spawned_in_a_cancelled_scope_end_with_it(place: Place) {
    ends_when_cancelled(place, || {
        scope(|scope| {
            scope.spawn(move || {
                let _late = AtEnd(|| drop(scope.spawn(|| sleep(HOUR))));
                sleep(HOUR);
            });
            scope.spawn(move || {
                let _ = panic::catch_unwind(|| sleep(HOUR));
                drop(scope.spawn(|| sleep(HOUR)).join());
            });
        });
    });
}

fn fibers_spawned_in_a_cancelled_try_scope_end_with_it(place: Place) {
    ends_when_cancelled(place, || {
        let _ = try_scope(|scope| {
            scope.spawn(move || {
                let _late = AtEnd(|| drop(scope.spawn(endless)));
                endless()
            });
            Ok(())
        });
    });
}

fn endless() -> io::Result<()> {
    sleep(HOUR);
    Ok(())
}

/// Cancels a fiber that runs `body`, and checks that it ends.
#[track_caller]
fn ends_when_cancelled(place: Place, body: fn()) {
    let runtime = place.runtime();
    let cancelled = place.spawn_waiting(&runtime, body);
    cancelled.cancel();
    eventually("the fiber ends", || cancelled.is_finished());
    assert!(cancelled.join().unwrap_err().is::<Cancelled>());
}
