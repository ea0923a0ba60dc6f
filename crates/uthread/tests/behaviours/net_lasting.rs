//! Long-lived connections, for which drivers keep state in the kernel: they end, wait and fail as
//! new connections do.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{self, Shutdown};
use std::sync::Arc;
use std::time::Duration;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, OUTSIDE, behaviours};
use crate::support::{HANG, drain, errno, kind, pair_with_std, pass_a_round, reset};
use rustix::io::Errno;
use uthread::net::TcpStream;

behaviours![
    (
        EVERYWHERE,
        [
            one_that_is_dropped_ends_at_once,
            one_that_is_given_to_std_ends_with_it,
            a_clone_keeps_it_open,
            its_end_and_its_reset_are_reported,
            a_read_that_is_late_takes_nothing,
            a_peek_that_waits_leaves_the_bytes,
            two_may_wait_for_it,
            reads_of_all_sizes_find_all_that_was_sent
        ]
    ),
    (
        &[OUTSIDE],
        [
            one_that_is_dropped_elsewhere_ends,
            one_outlives_its_runtime,
            one_is_read_by_fibers_of_all_workers_in_turn,
            a_cancelled_read_takes_nothing
        ]
    )
];

/// Number of messages that makes a connection long-lived.
const MESSAGES: usize = 8;

/// Returns a connection that has lasted, and its peer.
fn lasting_pair() -> (TcpStream, net::TcpStream) {
    let (mut ours, mut theirs) = pair_with_std();
    theirs.set_read_timeout(Some(HANG)).unwrap();
    exchange(&mut ours, &mut theirs);
    (ours, theirs)
}

fn exchange(ours: &mut impl Read, theirs: &mut impl Write) {
    for message in 0..MESSAGES as u8 {
        theirs.write_all(&[message]).unwrap();
        let mut received = [0];
        ours.read_exact(&mut received).unwrap();
        assert_eq!(received, [message]);
    }
}

/// Reads at the peer without letting the worker run.
fn one_that_is_dropped_ends_at_once(place: Place) {
    place.run(|| {
        let (ours, theirs) = lasting_pair();
        drop(ours);
        assert_eq!(drain(theirs), b"");
    });
}

fn one_that_is_given_to_std_ends_with_it(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = lasting_pair();
        let mut std = net::TcpStream::from(ours);
        exchange(&mut std, &mut theirs);
        drop(std);
        assert_eq!(drain(theirs), b"");
    });
}

fn a_clone_keeps_it_open(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = lasting_pair();
        let mut clone = ours.try_clone().unwrap();
        exchange(&mut clone, &mut theirs);
        drop(ours);
        exchange(&mut clone, &mut theirs);
        clone.write_all(b"last").unwrap();
        drop(clone);
        assert_eq!(drain(theirs), b"last");
    });
}

fn its_end_and_its_reset_are_reported(place: Place) {
    place.run(|| {
        let (mut ours, mut theirs) = lasting_pair();
        // With the last bytes, and long after them.
        theirs.write_all(b"last").unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        // The worker hears of both before the read, and of nothing after it.
        pass_a_round();
        let mut bytes = [0; 16];
        assert_eq!(ours.read(&mut bytes).unwrap(), 4);
        assert_eq!(ours.read(&mut bytes).unwrap(), 0);
        assert_eq!(ours.read(&mut bytes).unwrap(), 0);

        let (mut ours, theirs) = lasting_pair();
        let end = place.meanwhile(|| ours.read(&mut [0]), || drop(theirs));
        assert_eq!(end.unwrap(), 0);

        let (mut ours, theirs) = lasting_pair();
        let failure = place.meanwhile(
            || ours.read(&mut [0]),
            || {
                reset(&theirs);
                drop(theirs);
            },
        );
        assert_eq!(errno(failure), Errno::CONNRESET);

        let (mut ours, _theirs) = lasting_pair();
        ours.shutdown(Shutdown::Read).unwrap();
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
    });
}

fn a_read_that_is_late_takes_nothing(place: Place) {
    place.run(|| {
        let (mut ours, mut theirs) = lasting_pair();
        for _ in 0..3 {
            ours.set_read_timeout(Some(Duration::from_millis(2)))
                .unwrap();
            assert_eq!(kind(ours.read(&mut [0; 8])), ErrorKind::WouldBlock);
            ours.set_read_timeout(None).unwrap();
            exchange(&mut ours, &mut theirs);
        }
    });
}

/// Catches a peek that makes the next read wait for more than what has come.
fn a_peek_that_waits_leaves_the_bytes(place: Place) {
    place.run(|| {
        let (mut ours, mut theirs) = lasting_pair();
        let mut bytes = [0; 8];
        for _ in 0..3 {
            let peek = || ours.peek(&mut bytes);
            assert_eq!(
                place
                    .meanwhile(peek, || theirs.write_all(b"here").unwrap())
                    .unwrap(),
                4
            );
            assert_eq!(ours.peek(&mut [0]).unwrap(), 1);
            assert_eq!(ours.read(&mut bytes).unwrap(), 4);
            assert_eq!(&bytes[..4], b"here");
        }
        ours.set_read_timeout(Some(Duration::from_millis(2)))
            .unwrap();
        assert_eq!(kind(ours.peek(&mut bytes)), ErrorKind::WouldBlock);
        ours.set_read_timeout(None).unwrap();
        let end = place.meanwhile(|| ours.peek(&mut bytes), || drop(theirs));
        assert_eq!(end.unwrap(), 0);
        assert_eq!(ours.read(&mut bytes).unwrap(), 0);
    });
}

fn two_may_wait_for_it(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = lasting_pair();
        let read = || {
            let mut byte = [0];
            (&ours).read_exact(&mut byte).unwrap();
            byte[0]
        };
        let both = || {
            uthread::scope(|scope| {
                let other = scope.spawn(read);
                read() + other.join().unwrap()
            })
        };
        let sum = place.meanwhile(both, || theirs.write_all(&[1, 2]).unwrap());
        assert_eq!(sum, 3);
    });
}

/// Mixes reads that take all that is there, reads that take less, and some that would have taken
/// more.
fn reads_of_all_sizes_find_all_that_was_sent(place: Place) {
    place.run(|| {
        let (mut ours, mut theirs) = lasting_pair();
        for size in 1..100 {
            let sent = vec![size as u8; size];
            theirs.write_all(&sent).unwrap();
            let mut received = vec![0; 7];
            let mut left = size;
            while left > 0 {
                let count = ours.read(&mut received).unwrap();
                assert!(received[..count].iter().all(|byte| *byte == size as u8));
                left -= count;
            }
        }
    });
}

/// Drops a connection on a thread that has no worker, and on another worker where there is one.
fn one_that_is_dropped_elsewhere_ends(place: Place) {
    let runtime = place.runtime();
    let (ours, theirs) = runtime.run(lasting_pair);
    drop(ours);
    assert_eq!(drain(theirs), b"");
    for _ in 0..MESSAGES {
        let fiber = runtime.spawn(lasting_pair);
        let (ours, theirs) = fiber.join().unwrap();
        let dropping = runtime.spawn(move || drop(ours));
        assert_eq!(drain(theirs), b"");
        dropping.join().unwrap();
    }
}

fn one_outlives_its_runtime(place: Place) {
    let (mut ours, mut theirs) = place.runtime().run(lasting_pair);
    exchange(&mut ours, &mut theirs);
    place.run(|| exchange(&mut ours, &mut theirs));
    drop(ours);
    assert_eq!(drain(theirs), b"");
}

fn one_is_read_by_fibers_of_all_workers_in_turn(place: Place) {
    let runtime = place.runtime();
    let (mut ours, mut theirs) = runtime.run(lasting_pair);
    for _ in 0..20 {
        let exchanging = move || {
            exchange(&mut ours, &mut theirs);
            (ours, theirs)
        };
        (ours, theirs) = runtime.spawn(exchanging).join().unwrap();
    }
}

fn a_cancelled_read_takes_nothing(place: Place) {
    let runtime = place.runtime();
    let (ours, mut theirs) = runtime.run(lasting_pair);
    let ours = Arc::new(ours);
    let reading = |ours: &Arc<TcpStream>| {
        let ours = Arc::clone(ours);
        move || -> io::Result<u8> {
            let mut byte = [0];
            (&*ours).read_exact(&mut byte)?;
            Ok(byte[0])
        }
    };
    for message in 0..5 {
        let fiber = place.spawn_waiting(&runtime, reading(&ours));
        fiber.cancel();
        assert_eq!(errno(fiber.join().unwrap()), Errno::CANCELED);
        theirs.write_all(&[message]).unwrap();
        let next = runtime.spawn(reading(&ours));
        assert_eq!(next.join().unwrap().unwrap(), message);
    }
}
