//! Timeouts of reads, writes and connects: when they end a call, with which error, and that no data
//! is lost. Also the effect of a signal on a waiting call.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{self, SocketAddr};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_A_THREAD, behaviours};
use crate::support::{
    FREE, Flag, FullListener, HANG, HOUR, SOCKET_TIMEOUT, drain, errno, join, kind, narrow,
    pair_with_std, peer, refusing_socket, signals, wait_until_asleep,
};
use rustix::io::Errno;
use uthread::net::{TcpListener, TcpStream};

behaviours![
    (
        EVERYWHERE,
        [
            a_read_ends_at_its_timeout_as_in_std,
            a_write_ends_at_its_timeout_and_keeps_what_was_written,
            a_connect_ends_at_its_timeout_with_the_kind_of_std,
            a_connect_in_time_passes_on_the_connection_or_the_refusal,
            zero_is_refused_and_changes_nothing,
            none_waits_longer_than_any_timeout_before,
            bytes_after_a_timeout_go_to_the_next_read,
            bytes_that_race_with_the_timeout_arrive,
            clones_share_their_timeouts,
            conversions_take_timeouts_along,
            a_timeout_too_far_for_the_clock_is_none_at_all,
            many_reads_end_each_at_its_own_timeout
        ]
    ),
    (
        ON_A_THREAD,
        [
            a_signal_interrupts_reads_and_writes_of_a_plain_thread,
            a_signal_does_not_end_an_accept_or_a_connect
        ]
    ),
    (IN_FIBERS, [a_signal_to_a_worker_does_not_reach_its_fibers]),
];

/// Sees that `call` takes as long as the timeout, and not forever.
#[track_caller]
fn takes<T>(timeout: Duration, call: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = call();
    let elapsed = start.elapsed();
    assert!(elapsed >= timeout, "{elapsed:?} of {timeout:?}");
    assert!(elapsed < timeout + HANG / 2, "{elapsed:?} of {timeout:?}");
    result
}

fn a_read_ends_at_its_timeout_as_in_std(place: Place) {
    place.run(|| {
        let (ours, _peer) = pair_with_std();
        ours.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        let mut buffer = [7; 10];
        let (_open, std) = pair_with_std();
        std.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        let std = uthread::blocking(|| (&std).read(&mut [0]).unwrap_err());
        for _ in 0..2 {
            let error = takes(SOCKET_TIMEOUT, || (&ours).read(&mut buffer).unwrap_err());
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert_eq!(error.kind(), std.kind());
            assert_eq!(error.raw_os_error(), std.raw_os_error());
        }
        assert_eq!(
            takes(SOCKET_TIMEOUT, || errno(ours.peek(&mut buffer))),
            Errno::AGAIN
        );
        assert_eq!(buffer, [7; 10]);
    });
}

fn a_write_ends_at_its_timeout_and_keeps_what_was_written(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair_with_std();
        narrow(&ours, &theirs);
        ours.set_write_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        let (mut written, mut start) = (0, Instant::now());
        let error = loop {
            match (&ours).write(&[1; 100_000]) {
                Ok(count) => written += count,
                Err(error) => break error,
            }
            start = Instant::now();
        };
        assert!(start.elapsed() >= SOCKET_TIMEOUT, "{:?}", start.elapsed());
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert_eq!(error.raw_os_error(), Some(Errno::AGAIN.raw_os_error()));
        drop(ours);
        let received = drain(theirs);
        assert_eq!(received.len(), written);
        assert!(received.iter().all(|byte| *byte == 1));
    });
}

fn a_connect_ends_at_its_timeout_with_the_kind_of_std(place: Place) {
    place.run(|| {
        let full = FullListener::new();
        for _ in 0..2 {
            let result = takes(SOCKET_TIMEOUT, || {
                TcpStream::connect_timeout(&full.address, SOCKET_TIMEOUT)
            });
            assert_eq!(kind(result), ErrorKind::TimedOut);
        }
    });
}

fn a_connect_in_time_passes_on_the_connection_or_the_refusal(place: Place) {
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        for timeout in [HOUR, Duration::MAX] {
            let mut ours = TcpStream::connect_timeout(&address, timeout).unwrap();
            assert_eq!(ours.peer_addr().unwrap(), address);
            // The timeout bounds the connect alone: later reads wait without one.
            assert_eq!(ours.read_timeout().unwrap(), None);
            let (mut theirs, _) = listener.accept().unwrap();
            theirs.write_all(b"!").unwrap();
            ours.read_exact(&mut [0]).unwrap();
        }
        let (_socket, refusing) = refusing_socket();
        let result = TcpStream::connect_timeout(&refusing, HOUR);
        assert_eq!(errno(result), Errno::CONNREFUSED);
    });
}

fn zero_is_refused_and_changes_nothing(place: Place) {
    place.run(|| {
        let (ours, _peer) = pair_with_std();
        for former in [None, Some(HOUR)] {
            ours.set_read_timeout(former).unwrap();
            ours.set_write_timeout(former).unwrap();
            let zero = Some(Duration::ZERO);
            assert_eq!(kind(ours.set_read_timeout(zero)), ErrorKind::InvalidInput);
            assert_eq!(kind(ours.set_write_timeout(zero)), ErrorKind::InvalidInput);
            assert_eq!(ours.read_timeout().unwrap(), former);
            assert_eq!(ours.write_timeout().unwrap(), former);
        }
        let address = ours.peer_addr().unwrap();
        let result = TcpStream::connect_timeout(&address, Duration::ZERO);
        assert_eq!(kind(result), ErrorKind::InvalidInput);
    });
}

fn none_waits_longer_than_any_timeout_before(place: Place) {
    place.run(|| {
        let (mut ours, mut theirs) = pair_with_std();
        ours.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        theirs.write_all(b"1").unwrap();
        // Its timer must not end the next read.
        ours.read_exact(&mut [0]).unwrap();
        ours.set_read_timeout(None).unwrap();
        let begins = Arc::new(Barrier::new(2));
        let late = Arc::clone(&begins);
        let writer = peer(move || {
            late.wait();
            thread::sleep(2 * SOCKET_TIMEOUT);
            theirs.write_all(b"2").unwrap();
        });
        // Measured from before the writer begins its pause.
        takes(SOCKET_TIMEOUT, || {
            begins.wait();
            ours.read_exact(&mut [0]).unwrap();
        });
        join(writer);
    });
}

fn bytes_after_a_timeout_go_to_the_next_read(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        let mut abandoned = [[7; 4]; 8];
        for (number, buffer) in (0..).zip(&mut abandoned) {
            ours.set_read_timeout(Some(Duration::from_millis(5)))
                .unwrap();
            assert_eq!(errno((&ours).read(buffer)), Errno::AGAIN);
            theirs.write_all(&[number; 4]).unwrap();
            // The kernel may deliver them later than in five milliseconds.
            ours.set_read_timeout(None).unwrap();
            let mut bytes = [0; 4];
            (&ours).read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, [number; 4]);
        }
        // The kernel has not written to where a read no longer waits.
        assert_eq!(abandoned, [[7; 4]; 8]);
    });
}

/// Catches bytes that come at the moment of the timeout and are neither in this read nor in the
/// next.
fn bytes_that_race_with_the_timeout_arrive(place: Place) {
    const ROUNDS: u8 = 60;
    place.run(|| {
        let (mut ours, theirs) = pair_with_std();
        let timeout = Duration::from_millis(2);
        ours.set_read_timeout(Some(timeout)).unwrap();
        let (ready, go) = mpsc::channel();
        let writer = peer(move || {
            for number in 0..ROUNDS {
                let start: Instant = go.recv().unwrap();
                let due = start + timeout + Duration::from_micros(u64::from(number) * 20);
                while Instant::now() < due {
                    std::hint::spin_loop();
                }
                (&theirs).write_all(&[number]).unwrap();
            }
        });
        for number in 0..ROUNDS {
            let mut byte = [0xff];
            ready.send(Instant::now()).unwrap();
            while let Err(error) = ours.read(&mut byte) {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                assert_eq!(byte, [0xff]);
            }
            assert_eq!(byte, [number]);
        }
        join(writer);
    });
}

fn clones_share_their_timeouts(place: Place) {
    place.run(|| {
        let (ours, _peer) = pair_with_std();
        ours.set_read_timeout(Some(HOUR)).unwrap();
        let clone = ours.try_clone().unwrap();
        assert_eq!(clone.read_timeout().unwrap(), Some(HOUR));
        clone.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        clone.set_write_timeout(Some(HOUR)).unwrap();
        drop(clone);
        assert_eq!(ours.read_timeout().unwrap(), Some(SOCKET_TIMEOUT));
        assert_eq!(ours.write_timeout().unwrap(), Some(HOUR));
        takes(SOCKET_TIMEOUT, || {
            assert_eq!(errno((&ours).read(&mut [0])), Errno::AGAIN)
        });
    });
}

fn conversions_take_timeouts_along(place: Place) {
    place.run(|| {
        let (ours, _peer) = pair_with_std();
        ours.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        ours.set_write_timeout(Some(HOUR)).unwrap();
        let std = net::TcpStream::from(ours);
        // The kernel rounds a timeout up to its clock's ticks, of which the first may be nearly
        // over.
        let tick = Duration::from_millis(10);
        let near = |found: Option<Duration>, set: Duration| {
            let found = found.unwrap();
            assert!(found >= set && found < set + tick, "{found:?}");
        };
        near(std.read_timeout().unwrap(), SOCKET_TIMEOUT);
        near(std.write_timeout().unwrap(), HOUR);
        uthread::blocking(|| {
            takes(SOCKET_TIMEOUT - tick, || {
                assert_eq!(errno((&std).read(&mut [0])), Errno::AGAIN)
            })
        });
        let ours = TcpStream::from(std);
        near(ours.read_timeout().unwrap(), SOCKET_TIMEOUT);
        near(ours.write_timeout().unwrap(), HOUR);
        takes(SOCKET_TIMEOUT, || {
            assert_eq!(errno((&ours).read(&mut [0])), Errno::AGAIN)
        });

        let (ours, _peer) = pair_with_std();
        let std = net::TcpStream::from(TcpStream::from(net::TcpStream::from(ours)));
        assert_eq!(std.read_timeout().unwrap(), None);
        assert_eq!(std.write_timeout().unwrap(), None);
    });
}

fn a_timeout_too_far_for_the_clock_is_none_at_all(place: Place) {
    place.run(|| {
        const CENTURIES: Duration = Duration::from_secs(500 * 365 * 24 * 3600);
        let (mut ours, mut theirs) = pair_with_std();
        for timeout in [CENTURIES, Duration::MAX] {
            ours.set_read_timeout(Some(timeout)).unwrap();
            ours.set_write_timeout(Some(timeout)).unwrap();
            let begins = Arc::new(Barrier::new(2));
            let late = Arc::clone(&begins);
            let writer = peer(move || {
                late.wait();
                theirs.write_all(b"!").unwrap();
                theirs
            });
            begins.wait();
            ours.read_exact(&mut [0]).unwrap();
            ours.write_all(b"!").unwrap();
            theirs = join(writer);
        }
    });
}

fn many_reads_end_each_at_its_own_timeout(place: Place) {
    place.run(|| {
        let start = Instant::now();
        uthread::scope(|scope| {
            for number in 0..100 {
                scope.spawn(move || {
                    let (ours, _peer) = pair_with_std();
                    let timeout = 10 * SOCKET_TIMEOUT + Duration::from_millis(number % 50);
                    ours.set_read_timeout(Some(timeout)).unwrap();
                    takes(timeout, || {
                        assert_eq!(errno((&ours).read(&mut [0])), Errno::AGAIN)
                    });
                });
            }
        });
        // At once, not one after the other, which would take more than forty seconds.
        assert!(start.elapsed() < HANG, "{:?}", start.elapsed());
    });
}

/// Runs `call` on a thread that is interrupted from when it sleeps until the call returns, at most
/// for `times`; then runs `relieve`.
fn interrupted<T: Send>(
    times: usize,
    call: impl FnOnce() -> T + Send,
    relieve: impl FnOnce(),
) -> T {
    let _alone = signals::count_interruptions();
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let caller = scope.spawn(move || {
            sender.send(rustix::thread::gettid()).unwrap();
            call()
        });
        let thread = receiver.recv().unwrap();
        for _ in 0..times {
            if caller.is_finished() {
                break;
            }
            let before = signals::handled();
            wait_until_asleep(thread);
            signals::interrupt(thread);
            while signals::handled() == before && !caller.is_finished() {
                thread::yield_now();
            }
        }
        relieve();
        caller.join().unwrap()
    })
}

/// Expects interrupted calls to return, as in `std`, so that a program can check a flag that its
/// signal handler has set.
fn a_signal_interrupts_reads_and_writes_of_a_plain_thread(place: Place) {
    for timeout in [None, Some(HOUR)] {
        place.run(|| {
            let (ours, theirs) = pair_with_std();
            narrow(&ours, &theirs);
            ours.set_read_timeout(timeout).unwrap();
            ours.set_write_timeout(timeout).unwrap();
            let relieve = || (&theirs).write_all(b"!").unwrap();
            let read = interrupted(5, || (&ours).read(&mut [0]), relieve);
            assert_eq!(errno(read), Errno::INTR, "{timeout:?}");
            let fill = || -> io::Error {
                loop {
                    if let Err(error) = (&ours).write(&[0; 100_000]) {
                        return error;
                    }
                }
            };
            let end = || theirs.shutdown(net::Shutdown::Both).unwrap();
            let write = interrupted(50, fill, end);
            assert_eq!(write.kind(), ErrorKind::Interrupted, "{timeout:?}");
        });
    }
}

fn a_signal_does_not_end_an_accept_or_a_connect(place: Place) {
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = interrupted(
            5,
            || listener.accept(),
            || drop(net::TcpStream::connect(address).unwrap()),
        );
        accepted.unwrap();
    });
    place.run(|| {
        let full = FullListener::new();
        let address: SocketAddr = full.address;
        let connected = interrupted(
            5,
            || TcpStream::connect(address),
            || drop(full.listener.accept().unwrap()),
        );
        connected.unwrap();
    });
}

fn a_signal_to_a_worker_does_not_reach_its_fibers(place: Place) {
    let _alone = signals::count_interruptions();
    place.run(|| {
        let (mut ours, mut theirs) = pair_with_std();
        let (waits, worker) = (Flag::default(), rustix::thread::gettid());
        let raised = waits.clone();
        let reader = uthread::spawn(move || {
            raised.raise();
            ours.read(&mut [0])
        });
        waits.wait();
        let signaller = peer(move || {
            for _ in 0..5 {
                let before = signals::handled();
                wait_until_asleep(worker);
                signals::interrupt(worker);
                while signals::handled() == before {
                    thread::yield_now();
                }
            }
            theirs.write_all(b"!").unwrap();
            theirs
        });
        assert_eq!(reader.join().unwrap().unwrap(), 1);
        join(signaller);
    });
}
