//! Deadlines: a wait ends when they pass, earlier results are kept, and scopes pass them on.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use uthread::net::TcpListener;
use uthread::sync::{broadcast, mpsc, oneshot, promise, watch};
use uthread::thread::{is_cancelled, park};
use uthread::time::{Elapsed, deadline};
use uthread::{join, scope, shield, sleep, spawn, timeout, yield_now};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::{FREE, HOUR, SHORT, errno, pair, peer};

behaviours![
    (
        EVERYWHERE,
        [
            a_call_with_an_error_returns_it,
            a_call_without_an_error_is_unwound_up_to_the_deadline,
            later_calls_fail_at_once,
            calls_that_end_in_time_are_unaffected,
            a_value_is_kept_however_late,
            the_caller_goes_on_after_its_deadline,
            the_earlier_of_two_deadlines_counts,
            the_timeout_of_a_socket_stays_its_own,
            a_deadline_that_has_passed_refuses_at_once,
            a_panic_passes_through,
            a_caller_that_ignores_errors_is_unwound,
            a_shield_holds_the_deadline_off,
            a_deadline_in_a_shield_holds,
            an_error_of_the_kernel_has_its_number,
            no_wake_up_is_lost_to_a_timeout,
            a_read_to_the_end_of_a_pipe_ends,
        ]
    ),
    (
        IN_FIBERS,
        [
            fibers_of_a_scope_have_the_deadline_of_their_spawner,
            a_fork_has_the_deadline_of_its_caller,
            other_fibers_have_no_deadline,
            a_join_ends_and_the_fiber_goes_on,
            a_fiber_unwound_by_its_deadline_has_a_payload_of_its_own,
        ]
    ),
];

/// Returns `true` for the error of a call that a deadline has ended.
fn is_late<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| {
        error.kind() == ErrorKind::TimedOut
            && error.raw_os_error() == Some(Errno::TIMEDOUT.raw_os_error())
    })
}

/// Computes until the deadline has passed, without a call that would notice it.
fn spin_until_late() {
    while !is_cancelled() {
        std::hint::spin_loop();
    }
}

fn a_call_with_an_error_returns_it(place: Place) {
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let (mut stream, _peer) = pair();
        let (pipe, _end) = io::pipe().unwrap();
        let mut pipe = uthread::fs::File::from(OwnedFd::from(pipe));
        let start = Instant::now();
        assert!(is_late(timeout(SHORT, || listener.accept()).unwrap()));
        assert!(is_late(
            timeout(SHORT, || stream.read(&mut [0; 16])).unwrap()
        ));
        assert!(is_late(
            timeout(SHORT, || stream.peek(&mut [0; 16])).unwrap()
        ));
        assert!(is_late(timeout(SHORT, || pipe.read(&mut [0; 16])).unwrap()));
        let flooded: io::Result<()> = timeout(SHORT, || {
            loop {
                stream.write_all(&[0; 1 << 16])?;
            }
        })
        .unwrap();
        assert!(is_late(flooded));
        assert!(start.elapsed() >= 5 * SHORT);
    });
}

fn a_call_without_an_error_is_unwound_up_to_the_deadline(place: Place) {
    place.run(|| {
        let (sender, receiver) = mpsc::sync_channel::<()>(0);
        let start = Instant::now();
        assert_eq!(timeout(SHORT, || sleep(HOUR)), Err(Elapsed));
        assert_eq!(timeout(SHORT, || receiver.recv()), Err(Elapsed));
        // `recv_timeout` returns an error of its own, and is not unwound.
        assert_eq!(
            timeout(SHORT, || receiver.recv_timeout(HOUR)),
            Ok(Err(mpsc::RecvTimeoutError::Timeout))
        );
        let (_sender, once) = oneshot::channel::<()>();
        assert!(timeout(SHORT, || once.recv().is_ok()).is_err());
        let (_promise, waiter) = promise::channel::<()>();
        assert!(timeout(SHORT, || waiter.wait().is_ok()).is_err());
        let (_sender, mut each) = broadcast::channel::<()>(1);
        assert!(timeout(SHORT, || each.recv().is_ok()).is_err());
        let (_sender, mut latest) = watch::channel(());
        assert!(timeout(SHORT, || latest.changed().is_ok()).is_err());
        assert_eq!(timeout(SHORT, || sender.send(())), Err(Elapsed));
        let parked: Result<(), _> = timeout(SHORT, || {
            loop {
                park();
            }
        });
        assert_eq!(parked, Err(Elapsed));
        let yielding: Result<(), _> = timeout(SHORT, || {
            loop {
                yield_now();
            }
        });
        assert_eq!(yielding, Err(Elapsed));
        assert!(start.elapsed() >= 10 * SHORT);
        // The send that timed out has not sent its value.
        assert!(receiver.try_recv().is_err());
    });
}

fn later_calls_fail_at_once(place: Place) {
    place.run(|| {
        let (mut stream, mut other) = pair();
        other.write_all(b"there is something").unwrap();
        let ended = timeout(SHORT, || {
            spin_until_late();
            [
                is_late(stream.read(&mut [0; 4])),
                is_late(stream.write(b"x").map(|_| ())),
                is_late(uthread::fs::read("Cargo.toml")),
                is_late(uthread::fs::read_dir(".")),
            ]
        });
        assert_eq!(ended, Ok([true; 4]));
    });
}

fn calls_that_end_in_time_are_unaffected(place: Place) {
    place.run(|| {
        let (mut stream, mut other) = pair();
        let read = timeout(HOUR, || {
            other.write_all(b"fast")?;
            let mut bytes = [0; 4];
            stream.read_exact(&mut bytes).map(|()| bytes)
        });
        assert_eq!(&read.unwrap().unwrap(), b"fast");
    });
}

fn a_value_is_kept_however_late(place: Place) {
    let value = place.run(|| {
        timeout(SHORT, || {
            spin_until_late();
            "late"
        })
    });
    assert_eq!(value, Ok("late"));
}

fn the_caller_goes_on_after_its_deadline(place: Place) {
    place.run(|| {
        for _ in 0..3 {
            assert_eq!(timeout(SHORT, || sleep(HOUR)), Err(Elapsed));
            assert!(!is_cancelled());
            uthread::fs::read("Cargo.toml").unwrap();
            sleep(Duration::from_millis(1));
            let (mut stream, mut other) = pair();
            other.write_all(b"x").unwrap();
            stream.read_exact(&mut [0]).unwrap();
        }
    });
}

fn the_earlier_of_two_deadlines_counts(place: Place) {
    place.run(|| {
        let start = Instant::now();
        // The outer deadline unwinds through the inner one, which has not passed.
        let outer = timeout(SHORT, || timeout(HOUR, || sleep(HOUR)));
        assert_eq!(outer, Err(Elapsed));
        let inner = timeout(HOUR, || timeout(SHORT, || sleep(HOUR)));
        assert_eq!(inner, Ok(Err(Elapsed)));
        let at = Instant::now() + SHORT;
        let same = deadline(at, || deadline(at, || sleep(HOUR)));
        assert_eq!(same, Err(Elapsed));
        assert!(start.elapsed() < HOUR);
    });
}

fn the_timeout_of_a_socket_stays_its_own(place: Place) {
    place.run(|| {
        let (mut stream, _peer) = pair();
        stream.set_read_timeout(Some(SHORT)).unwrap();
        let read = timeout(HOUR, || stream.read(&mut [0; 4])).unwrap();
        assert_eq!(read.unwrap_err().kind(), ErrorKind::WouldBlock);
        stream.set_read_timeout(Some(HOUR)).unwrap();
        assert!(is_late(
            timeout(SHORT, || stream.read(&mut [0; 4])).unwrap()
        ));
    });
}

fn a_deadline_that_has_passed_refuses_at_once(place: Place) {
    place.run(|| {
        let read = timeout(Duration::ZERO, || uthread::fs::read("Cargo.toml"));
        assert!(is_late(read.unwrap()));
        let counted = timeout(Duration::ZERO, || 1 + 1);
        assert_eq!(counted, Ok(2));
    });
}

fn a_panic_passes_through(place: Place) {
    let result =
        place.run(|| panic::catch_unwind(|| timeout(SHORT, || -> () { panic!("on purpose") })));
    let payload = result.unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"on purpose"));
}

fn a_caller_that_ignores_errors_is_unwound(place: Place) {
    place.run(|| {
        let (mut stream, _peer) = pair();
        let stubborn: Result<(), _> = timeout(SHORT, || {
            loop {
                let _ = stream.read(&mut [0; 4]);
            }
        });
        assert_eq!(stubborn, Err(Elapsed));
    });
}

fn a_shield_holds_the_deadline_off(place: Place) {
    place.run(|| {
        let (mut stream, mut other) = pair();
        let kept = timeout(SHORT, || {
            shield(|| {
                sleep(2 * SHORT);
                assert!(!is_cancelled());
                other.write_all(b"kept")?;
                stream.read_exact(&mut [0; 4])
            })
            .map(|()| is_late(stream.read(&mut [0; 4])))
        });
        assert!(kept.unwrap().unwrap());
    });
}

fn a_deadline_in_a_shield_holds(place: Place) {
    place.run(|| {
        let slept = timeout(HOUR, || shield(|| timeout(SHORT, || sleep(HOUR))));
        assert_eq!(slept, Ok(Err(Elapsed)));
    });
}

fn an_error_of_the_kernel_has_its_number(place: Place) {
    place.run(|| {
        let missing = timeout(HOUR, || uthread::fs::read("no such file")).unwrap();
        assert_eq!(errno(missing), Errno::NOENT);
    });
}

fn no_wake_up_is_lost_to_a_timeout(place: Place) {
    const ROUNDS: u32 = 50;
    const PAUSE_MAX: Duration = Duration::from_millis(1);
    place.run(|| {
        let (sender, receiver) = mpsc::channel();
        let sending = peer(move || {
            for round in 0..ROUNDS {
                std::thread::sleep(PAUSE_MAX * round / ROUNDS);
                sender.send(round).unwrap();
            }
        });
        let mut received = 0;
        while received < ROUNDS {
            if let Ok(round) = timeout(PAUSE_MAX / 2, || receiver.recv()) {
                assert_eq!(round, Ok(received), "a value was lost");
                received += 1;
            }
        }
        crate::support::join(sending);
    });
}

fn fibers_of_a_scope_have_the_deadline_of_their_spawner(place: Place) {
    place.run(|| {
        let (mut stream, _peer) = pair();
        let ended = timeout(SHORT, || {
            scope(|scope| {
                let child = scope.spawn(|| scope.spawn(|| stream.read(&mut [0; 4])));
                // Without the shield, the join would be unwound.
                shield(|| child.join().unwrap().join().unwrap())
            })
        });
        assert!(is_late(ended.unwrap()));

        let unwound = timeout(SHORT, || {
            scope(|scope| {
                scope.spawn(|| sleep(HOUR));
            });
        });
        assert_eq!(unwound, Err(Elapsed));
    });
}

fn a_fork_has_the_deadline_of_its_caller(place: Place) {
    place.run(|| {
        let unwound = timeout(SHORT, || join(|| 1, || sleep(HOUR)));
        assert_eq!(unwound, Err(Elapsed));
    });
}

fn other_fibers_have_no_deadline(place: Place) {
    place.run(|| {
        let (sender, receiver) = mpsc::channel();
        let spawned = timeout(SHORT, || {
            spawn(move || {
                receiver.recv().unwrap();
                is_cancelled()
            })
        });
        sleep(2 * SHORT);
        sender.send(()).unwrap();
        assert!(!spawned.unwrap().join().unwrap());
    });
}

fn a_join_ends_and_the_fiber_goes_on(place: Place) {
    place.run(|| {
        let (sender, receiver) = mpsc::channel();
        let done = Arc::new(());
        let theirs = Arc::clone(&done);
        let fiber = spawn(move || {
            receiver.recv().unwrap();
            drop(theirs);
        });
        assert!(timeout(SHORT, || fiber.join()).is_err());
        sender.send(()).unwrap();
        while Arc::strong_count(&done) > 1 {
            yield_now();
        }
    });
}

fn a_fiber_unwound_by_its_deadline_has_a_payload_of_its_own(place: Place) {
    place.run(|| {
        scope(|scope| {
            let child = timeout(SHORT, || scope.spawn(|| sleep(HOUR))).unwrap();
            let payload = child.join().unwrap_err();
            assert!(payload.is::<Elapsed>());
            // The scope panics for such a fiber neither if it was joined nor if it was not.
            let _unjoined = timeout(SHORT, || scope.spawn(|| sleep(HOUR)));
        });
        // The deadlines of its fibers leave none to the caller.
        assert!(panic::catch_unwind(AssertUnwindSafe(|| sleep(SHORT))).is_ok());
    });
}

fn a_read_to_the_end_of_a_pipe_ends(place: Place) {
    place.run(|| {
        let (pipe, _end) = io::pipe().unwrap();
        let mut pipe = uthread::fs::File::from(OwnedFd::from(pipe));
        let mut bytes = Vec::new();
        assert!(is_late(
            timeout(SHORT, || pipe.read_to_end(&mut bytes)).unwrap()
        ));
    });
}
