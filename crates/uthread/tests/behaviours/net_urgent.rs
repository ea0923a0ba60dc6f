//! Streams on which a short read does not mean that the queue is empty: those with urgent data, at
//! whose mark a read stops, and descriptors of other types wrapped as TCP streams.

use std::io::{Read, Write};
use std::net::{self, Shutdown};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair, sockopt};
use uthread::net::{TcpStream, UnixStream};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::{HANG, drain, errno, pair_with_std, pass_a_round, peer, reset};

behaviours![
    (
        EVERYWHERE,
        [
            urgent_data_holds_up_nothing_that_was_sent_before_a_read,
            urgent_data_holds_up_nothing_that_comes_during_a_read,
            urgent_data_alone_is_no_end,
            a_connection_with_urgent_data_goes_on,
            an_end_after_urgent_data_is_reported,
            a_reset_after_urgent_data_is_reported,
            messages_through_a_tcp_stream_all_arrive,
            messages_through_a_unix_stream_all_arrive,
        ]
    ),
    (
        IN_FIBERS,
        [one_reader_of_two_is_not_left_behind_by_urgent_data]
    ),
];

/// Messages that make a connection last.
const MESSAGES: usize = 8;

/// Returns a connection after so many messages, and its peer. If `inline` is set, urgent bytes come
/// with the others.
fn connection(messages: usize, inline: bool) -> (TcpStream, net::TcpStream) {
    let (mut ours, mut theirs) = pair_with_std();
    sockopt::set_socket_oobinline(&ours, inline).unwrap();
    // So that a stall is an error.
    ours.set_read_timeout(Some(HANG)).unwrap();
    for _ in 0..messages {
        theirs.write_all(b"x").unwrap();
        ours.read_exact(&mut [0]).unwrap();
    }
    (ours, theirs)
}

/// Calls `check` with fresh connections and with lasting ones, with urgent bytes among the others
/// and without.
fn on_each(check: impl Fn(bool, TcpStream, net::TcpStream)) {
    for messages in [0, MESSAGES] {
        for inline in [false, true] {
            let (ours, theirs) = connection(messages, inline);
            check(inline, ours, theirs);
        }
    }
}

fn send_urgent(socket: impl AsFd) {
    assert_eq!(rustix::net::send(socket, b"!", SendFlags::OOB), Ok(1));
}

fn send_around_mark(mut theirs: &net::TcpStream) {
    theirs.write_all(b"before").unwrap();
    send_urgent(theirs);
    theirs.write_all(b"after").unwrap();
}

/// Returns the bytes that a reader receives of this.
fn expected(inline: bool) -> &'static [u8] {
    if inline {
        b"before!after"
    } else {
        b"beforeafter"
    }
}

/// Reads as much with more room than there are bytes.
fn read(mut from: impl Read, length: usize) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 64]);
    while bytes.len() < length {
        let count = from.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "the end after {bytes:?}");
        bytes.extend_from_slice(&buffer[..count]);
    }
    bytes
}

fn urgent_data_holds_up_nothing_that_was_sent_before_a_read(place: Place) {
    place.run(|| {
        on_each(|inline, ours, theirs| {
            send_around_mark(&theirs);
            // The worker hears of all of it together.
            pass_a_round();
            let expected = expected(inline);
            assert_eq!(read(&ours, expected.len()), expected);
        });
    });
}

fn urgent_data_holds_up_nothing_that_comes_during_a_read(place: Place) {
    place.run(|| {
        on_each(|inline, ours, theirs| {
            let expected = expected(inline);
            let received =
                place.meanwhile(|| read(&ours, expected.len()), || send_around_mark(&theirs));
            assert_eq!(received, expected);
        });
    });
}

fn urgent_data_alone_is_no_end(place: Place) {
    place.run(|| {
        on_each(|inline, ours, mut theirs| {
            send_urgent(&theirs);
            pass_a_round();
            if inline {
                assert_eq!(read(&ours, 1), b"!");
            }
            let received =
                place.meanwhile(|| read(&ours, 4), || theirs.write_all(b"next").unwrap());
            assert_eq!(received, b"next");
        });
    });
}

fn a_connection_with_urgent_data_goes_on(place: Place) {
    place.run(|| {
        on_each(|inline, ours, mut theirs| {
            for round in 0..MESSAGES {
                let expected = expected(inline);
                send_around_mark(&theirs);
                assert_eq!(read(&ours, expected.len()), expected, "round {round}");
                theirs.write_all(b"between").unwrap();
                assert_eq!(read(&ours, 7), b"between", "round {round}");
            }
        });
    });
}

fn an_end_after_urgent_data_is_reported(place: Place) {
    place.run(|| {
        on_each(|inline, ours, mut theirs| {
            send_around_mark(&theirs);
            theirs.shutdown(Shutdown::Write).unwrap();
            pass_a_round();
            assert_eq!(drain(&ours), expected(inline));
            // The other direction is open.
            (&ours).write_all(b"answer").unwrap();
            drop(ours);
            assert_eq!(drain(&mut theirs), b"answer");
        });
    });
}

fn a_reset_after_urgent_data_is_reported(place: Place) {
    place.run(|| {
        on_each(|inline, ours, theirs| {
            send_around_mark(&theirs);
            let expected = expected(inline);
            assert_eq!(read(&ours, expected.len()), expected);
            reset(&theirs);
            drop(theirs);
            assert_eq!(errno((&ours).read(&mut [0; 64])), Errno::CONNRESET);
        });
    });
}

/// Creates a pair of sockets that keep the boundaries of messages.
fn messages_of(kind: SocketType) -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
}

/// Sends messages in pairs, and reads each with more room than it takes.
fn check_messages(place: Place, mut ours: impl Read + Send, theirs: &OwnedFd) {
    let send = |text: &[u8]| {
        rustix::net::send(theirs, text, SendFlags::empty()).unwrap();
    };
    let mut buffer = [0; 64];
    let mut receive = || {
        let count = ours.read(&mut buffer).unwrap();
        buffer[..count].to_vec()
    };
    for round in 0..MESSAGES as u8 {
        send(&[b'a', round]);
        send(&[b'b', round, round]);
        pass_a_round();
        assert_eq!(receive(), [b'a', round]);
        assert_eq!(receive(), [b'b', round, round]);
        let both = || (receive(), receive());
        let received = place.meanwhile(both, || {
            send(b"c");
            send(b"d");
        });
        assert_eq!(received, (b"c".to_vec(), b"d".to_vec()));
    }
}

const KINDS: [SocketType; 3] = [
    SocketType::DGRAM,
    SocketType::SEQPACKET,
    // Bytes: two reads of them may be one.
    SocketType::STREAM,
];

fn messages_through_a_tcp_stream_all_arrive(place: Place) {
    place.run(|| {
        for kind in &KINDS[..2] {
            let (ours, theirs) = messages_of(*kind);
            let ours = TcpStream::from(ours);
            ours.set_read_timeout(Some(HANG)).unwrap();
            check_messages(place, ours, &theirs);
        }
        // Its urgent data has a mark as well.
        let (ours, theirs) = messages_of(KINDS[2]);
        let ours = TcpStream::from(ours);
        ours.set_read_timeout(Some(HANG)).unwrap();
        for round in 0..MESSAGES {
            rustix::net::send(&theirs, b"before", SendFlags::empty()).unwrap();
            // Kernels before 5.15 have none here.
            let _ = rustix::net::send(&theirs, b"!", SendFlags::OOB);
            rustix::net::send(&theirs, b"after", SendFlags::empty()).unwrap();
            assert_eq!(read(&ours, 11), b"beforeafter", "round {round}");
        }
    });
}

fn messages_through_a_unix_stream_all_arrive(place: Place) {
    place.run(|| {
        for kind in &KINDS[..2] {
            let (ours, theirs) = messages_of(*kind);
            let ours = UnixStream::from(ours);
            ours.set_read_timeout(Some(HANG)).unwrap();
            check_messages(place, ours, &theirs);
        }
    });
}

fn one_reader_of_two_is_not_left_behind_by_urgent_data(place: Place) {
    place.run(|| {
        on_each(|inline, ours, theirs| {
            let expected = expected(inline);
            let both = || {
                uthread::scope(|scope| {
                    let other = scope.spawn(|| read(&ours, 1).len());
                    let first = read(&ours, 1).len();
                    first + other.join().unwrap()
                })
            };
            let theirs = &theirs;
            let count = place.meanwhile(both, || {
                let sending = theirs.try_clone().unwrap();
                let sending: JoinHandle<()> = peer(move || send_around_mark(&sending));
                crate::support::join(sending);
            });
            let rest = read(&ours, expected.len() - count);
            assert_eq!(count + rest.len(), expected.len());
        });
    });
}
