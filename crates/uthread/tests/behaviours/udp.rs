//! UDP sockets behave like those of `std`: datagrams are received whole or truncated to the buffer,
//! and in order.

use std::io::{ErrorKind, Write};
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours, lacks};
use crate::support::{FREE, HANG, SOCKET_TIMEOUT, errno, join, kind, peer};
use rustix::io::{Errno, FdFlags};
use uthread::net::{TcpStream, UdpSocket};

behaviours![(
    EVERYWHERE,
    [
        datagrams_go_both_ways_with_the_address_of_the_sender,
        a_connected_socket_receives_only_from_its_peer,
        a_receive_waits_for_a_datagram,
        datagrams_are_received_one_by_one,
        bytes_beyond_the_buffer_are_lost_and_the_next_datagram_is_whole,
        an_empty_datagram_is_received,
        peeking_leaves_the_datagram,
        a_refused_datagram_is_reported_by_the_next_call,
        a_refusal_ends_a_receive_that_waits,
        too_long_datagrams_are_refused,
        calls_that_need_a_peer_fail_without_one,
        several_addresses_are_tried_as_in_std,
        a_receive_ends_at_its_timeout,
        a_nonblocking_socket_does_not_wait,
        clones_receive_from_one_queue,
        conversions_keep_what_is_queued_and_set,
        many_receive_on_one_socket_at_once,
        a_socket_of_another_kind_is_an_error
    ]
)];

fn bound() -> UdpSocket {
    UdpSocket::bind(FREE).unwrap()
}

/// Makes a socket refuse the datagrams of others: from now on it receives only its own. If it were
/// closed instead, another trial could take its port.
fn close_to_others(socket: &UdpSocket) {
    socket.connect(socket.local_addr().unwrap()).unwrap();
}

/// Returns two sockets that are connected to each other.
fn pair() -> (UdpSocket, UdpSocket) {
    let (one, other) = (bound(), bound());
    one.connect(other.local_addr().unwrap()).unwrap();
    other.connect(one.local_addr().unwrap()).unwrap();
    (one, other)
}

fn datagrams_go_both_ways_with_the_address_of_the_sender(place: Place) {
    place.run(|| {
        let (ours, std) = (bound(), net::UdpSocket::bind(FREE).unwrap());
        let (here, there) = (ours.local_addr().unwrap(), std.local_addr().unwrap());
        assert_eq!(ours.send_to(b"question", there).unwrap(), 8);
        let mut buffer = [0; 20];
        assert_eq!(std.recv_from(&mut buffer).unwrap(), (8, here));
        std.send_to(b"answer", here).unwrap();
        assert_eq!(ours.recv_from(&mut buffer).unwrap(), (6, there));
        // The answer is shorter than the question, and leaves the last two bytes of that.
        assert_eq!(&buffer[..8], b"answeron");
        assert_eq!(rustix::io::fcntl_getfd(&ours).unwrap(), FdFlags::CLOEXEC);
    });
    if net::UdpSocket::bind("[::1]:0").is_err() {
        lacks("this machine has no ::1");
    }
    place.run(|| {
        let [one, other] = ["[::1]:0"; 2].map(|address| UdpSocket::bind(address).unwrap());
        one.send_to(b"six", other.local_addr().unwrap()).unwrap();
        let received = other.recv_from(&mut [0; 20]).unwrap();
        assert_eq!(received, (3, one.local_addr().unwrap()));
    });
}

fn a_connected_socket_receives_only_from_its_peer(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair();
        assert_eq!(ours.peer_addr().unwrap(), theirs.local_addr().unwrap());
        let stranger = bound();
        stranger
            .send_to(b"stranger", ours.local_addr().unwrap())
            .unwrap();
        assert_eq!(theirs.send(b"friend").unwrap(), 6);
        let mut buffer = [0; 20];
        assert_eq!(ours.recv(&mut buffer).unwrap(), 6);
        assert_eq!(&buffer[..6], b"friend");
    });
}

fn a_receive_waits_for_a_datagram(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair();
        let send = || theirs.send(b"at last").map(drop).unwrap();
        for _ in 0..3 {
            let received = place.meanwhile(|| ours.recv(&mut [0; 20]), send);
            assert_eq!(received.unwrap(), 7);
            let received = place.meanwhile(|| ours.recv_from(&mut [0; 20]), send);
            assert_eq!(received.unwrap(), (7, theirs.local_addr().unwrap()));
        }
    });
}

/// Catches a wait for a datagram that is there already, after a receive shorter than its buffer.
fn datagrams_are_received_one_by_one(place: Place) {
    const COUNT: u8 = 9;
    const LENGTH: usize = 10;
    place.run(|| {
        let (ours, theirs) = pair();
        let send_all = || {
            for number in 1..=COUNT {
                assert_eq!(theirs.send(&[number; LENGTH]).unwrap(), LENGTH);
            }
        };
        for with_address in [false, true] {
            let mut first = [0; 100];
            let received = place.meanwhile(|| ours.recv(&mut first), send_all);
            assert_eq!(received.unwrap(), LENGTH);
            assert_eq!(first[..LENGTH], [1; LENGTH]);
            for number in 2..=COUNT {
                let mut buffer = [0; 100];
                let length = if with_address {
                    ours.recv_from(&mut buffer).unwrap().0
                } else {
                    ours.recv(&mut buffer).unwrap()
                };
                assert_eq!(length, LENGTH);
                assert_eq!(buffer[..LENGTH], [number; LENGTH]);
                assert_eq!(buffer[LENGTH], 0, "bytes of another datagram follow");
            }
        }
    });
}

fn bytes_beyond_the_buffer_are_lost_and_the_next_datagram_is_whole(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair();
        for _ in 0..2 {
            theirs.send(b"too long").unwrap();
            theirs.send(b"next").unwrap();
        }
        let mut buffer = [0; 4];
        assert_eq!(ours.recv(&mut buffer).unwrap(), 4);
        assert_eq!(&buffer, b"too ");
        assert_eq!(ours.recv(&mut buffer).unwrap(), 4);
        assert_eq!(&buffer, b"next");
        assert_eq!(ours.recv_from(&mut buffer[..3]).unwrap().0, 3);
        // The last byte is that of the datagram before.
        assert_eq!(&buffer, b"toot");
        assert_eq!(ours.recv_from(&mut buffer).unwrap().0, 4);
        assert_eq!(&buffer, b"next");
    });
}

fn an_empty_datagram_is_received(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair();
        assert_eq!(theirs.send(b"").unwrap(), 0);
        theirs.send_to(b"", ours.local_addr().unwrap()).unwrap();
        theirs.send(b"three").unwrap();
        theirs.send(b"four").unwrap();
        assert_eq!(ours.recv(&mut [0; 9]).unwrap(), 0);
        let from = theirs.local_addr().unwrap();
        assert_eq!(ours.recv_from(&mut [0; 9]).unwrap(), (0, from));
        // A receive into an empty buffer takes a datagram off the queue, too.
        assert_eq!(ours.recv(&mut []).unwrap(), 0);
        assert_eq!(ours.recv(&mut [0; 9]).unwrap(), 4);
    });
}

fn peeking_leaves_the_datagram(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair();
        theirs.send(b"seen before").unwrap();
        let from = theirs.local_addr().unwrap();
        let mut buffer = [0; 4];
        for _ in 0..2 {
            assert_eq!(ours.peek(&mut buffer).unwrap(), 4);
            assert_eq!(ours.peek_from(&mut buffer).unwrap(), (4, from));
            assert_eq!(&buffer, b"seen");
        }
        assert_eq!(ours.recv(&mut [0; 20]).unwrap(), 11);
    });
}

fn a_refused_datagram_is_reported_by_the_next_call(place: Place) {
    place.run(|| {
        let ours = bound();
        let closed = bound();
        ours.connect(closed.local_addr().unwrap()).unwrap();
        close_to_others(&closed);
        ours.send(b"?").unwrap();
        assert_eq!(errno(ours.recv(&mut [0])), Errno::CONNREFUSED);
        ours.send(b"?").unwrap();
        assert_eq!(errno(ours.send(b"?")), Errno::CONNREFUSED);
        ours.send(b"?").unwrap();
        assert_eq!(errno(ours.recv_from(&mut [0])), Errno::CONNREFUSED);
        ours.send(b"?").unwrap();
        let pending = ours.take_error().unwrap().expect("an error");
        assert_eq!(pending.kind(), ErrorKind::ConnectionRefused);
        // The error is reported once, and the socket works as before.
        let theirs = bound();
        theirs
            .send_to(b"!", ours.local_addr().unwrap())
            .expect("the socket sends to any address");
        ours.connect(theirs.local_addr().unwrap()).unwrap();
        ours.send(b"hello").unwrap();
        assert_eq!(theirs.recv(&mut [0; 9]).unwrap(), 5);
    });
}

fn a_refusal_ends_a_receive_that_waits(place: Place) {
    place.run(|| {
        let (ours, closed) = pair();
        close_to_others(&closed);
        let send = || ours.send(b"?").map(drop).unwrap();
        let received = place.meanwhile(|| ours.recv(&mut [0]), send);
        assert_eq!(errno(received), Errno::CONNREFUSED);
        // The socket is still open: later receives wait again.
        ours.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        assert_eq!(errno(ours.recv(&mut [0])), Errno::AGAIN);
    });
}

fn too_long_datagrams_are_refused(place: Place) {
    /// Maximum length of a datagram: that of an IP packet, without the headers of IPv4 and UDP.
    const LENGTH_MAX: usize = 65_535 - 20 - 8;
    place.run(|| {
        let (ours, theirs) = pair();
        let address = theirs.local_addr().unwrap();
        let long = vec![0; LENGTH_MAX + 1];
        assert_eq!(errno(ours.send(&long)), Errno::MSGSIZE);
        assert_eq!(errno(ours.send_to(&long, address)), Errno::MSGSIZE);
        assert_eq!(ours.send(&long[1..]).unwrap(), LENGTH_MAX);
        let mut buffer = vec![0; LENGTH_MAX + 1];
        assert_eq!(theirs.recv(&mut buffer).unwrap(), LENGTH_MAX);
    });
}

fn calls_that_need_a_peer_fail_without_one(place: Place) {
    place.run(|| {
        let ours = bound();
        assert_eq!(errno(ours.peer_addr()), Errno::NOTCONN);
        assert_eq!(errno(ours.send(b"whom?")), Errno::DESTADDRREQ);
    });
}

fn several_addresses_are_tried_as_in_std(place: Place) {
    place.run(|| {
        let theirs = bound();
        let six: SocketAddr = "[::1]:9".parse().unwrap();
        let addresses = [six, theirs.local_addr().unwrap()];
        let ours = bound();
        ours.connect(&addresses[..]).unwrap();
        assert_eq!(ours.peer_addr().unwrap(), addresses[1]);
        // `send_to` uses only the first address.
        let ours = bound();
        assert_eq!(errno(ours.send_to(b"", &addresses[..])), Errno::AFNOSUPPORT);
        let nothing: &[SocketAddr] = &[];
        assert_eq!(kind(ours.send_to(b"", nothing)), ErrorKind::InvalidInput);
        assert_eq!(kind(ours.connect(nothing)), ErrorKind::InvalidInput);
        assert_eq!(kind(UdpSocket::bind(nothing)), ErrorKind::InvalidInput);
        let taken = theirs.local_addr().unwrap();
        assert_eq!(errno(UdpSocket::bind(taken)), Errno::ADDRINUSE);
        let bound = UdpSocket::bind(&[taken, FREE.parse().unwrap()][..]).unwrap();
        assert_ne!(bound.local_addr().unwrap(), taken);
        bound
            .send_to(b"by name", ("localhost", taken.port()))
            .unwrap();
        assert_eq!(theirs.recv(&mut [0; 9]).unwrap(), 7);
    });
}

fn a_receive_ends_at_its_timeout(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair();
        assert_eq!(ours.read_timeout().unwrap(), None);
        ours.set_write_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        for _ in 0..2 {
            ours.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
            let start = Instant::now();
            assert_eq!(errno(ours.recv(&mut [0])), Errno::AGAIN);
            assert_eq!(errno(ours.recv_from(&mut [0])), Errno::AGAIN);
            assert_eq!(errno(ours.peek(&mut [0])), Errno::AGAIN);
            let elapsed = start.elapsed();
            assert!((3 * SOCKET_TIMEOUT..HANG).contains(&elapsed), "{elapsed:?}");
            // The next call receives a datagram that comes after the timeout, whenever the kernel
            // delivers it.
            theirs.send(b"late").unwrap();
            ours.set_read_timeout(None).unwrap();
            assert_eq!(ours.recv(&mut [0; 9]).unwrap(), 4);
        }
        let refused = ours.set_read_timeout(Some(Duration::ZERO));
        assert_eq!(kind(refused), ErrorKind::InvalidInput);
    });
}

fn a_nonblocking_socket_does_not_wait(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair();
        ours.set_nonblocking(true).unwrap();
        let clone = ours.try_clone().unwrap();
        let mut buffer = [0; 9];
        assert_eq!(errno(ours.recv(&mut buffer)), Errno::AGAIN);
        assert_eq!(errno(clone.recv_from(&mut buffer)), Errno::AGAIN);
        assert_eq!(errno(ours.peek_from(&mut buffer)), Errno::AGAIN);
        theirs.send(b"here").unwrap();
        assert_eq!(ours.recv(&mut buffer).unwrap(), 4);
        ours.set_nonblocking(false).unwrap();
        let send = || theirs.send(b"waited").map(drop).unwrap();
        assert_eq!(place.meanwhile(|| ours.recv(&mut [0; 9]), send).unwrap(), 6);
    });
}

fn clones_receive_from_one_queue(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair();
        let clone = ours.try_clone().unwrap();
        for text in ["one", "two"] {
            theirs.send(text.as_bytes()).unwrap();
        }
        let mut buffer = [0; 3];
        ours.recv(&mut buffer).unwrap();
        assert_eq!(&buffer, b"one");
        drop(ours);
        clone.recv(&mut buffer).unwrap();
        assert_eq!(&buffer, b"two");
    });
}

fn conversions_keep_what_is_queued_and_set(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair();
        theirs.send(b"queued").unwrap();
        ours.set_read_timeout(Some(HANG)).unwrap();
        let number = ours.as_fd().as_raw_fd();
        let std = net::UdpSocket::from(ours);
        assert_eq!(std.as_raw_fd(), number);
        assert_eq!(std.read_timeout().unwrap(), Some(HANG));
        let fd = OwnedFd::from(UdpSocket::from(std));
        let raw = UdpSocket::from(fd).into_raw_fd();
        assert_eq!(raw, number);
        #[allow(unsafe_code, reason = "the descriptor comes from the line above")]
        // SAFETY: `into_raw_fd` has just given up the ownership.
        let ours = unsafe { UdpSocket::from_raw_fd(raw) };
        assert_eq!(ours.read_timeout().unwrap(), Some(HANG));
        assert_eq!(ours.recv(&mut [0; 9]).unwrap(), 6);
    });
}

fn many_receive_on_one_socket_at_once(place: Place) {
    const COUNT: usize = 20;
    place.run(|| {
        let (ours, theirs) = pair();
        let sender = peer(move || {
            let std = net::UdpSocket::from(theirs);
            (0..COUNT).for_each(|_| assert_eq!(std.send(&[1; 10]).unwrap(), 10));
            std
        });
        uthread::scope(|scope| {
            for _ in 0..COUNT {
                scope.spawn(|| assert_eq!(ours.recv(&mut [0; 100]).unwrap(), 10));
            }
        });
        join(sender);
    });
}

fn a_socket_of_another_kind_is_an_error(place: Place) {
    place.run(|| {
        let listener = net::TcpListener::bind(FREE).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (std, _) = listener.accept().unwrap();
        (&std).write_all(b"text").unwrap();
        let ours = UdpSocket::from(OwnedFd::from(stream));
        // The kernel has received a byte before the call refuses the missing address.
        assert_eq!(errno(ours.recv_from(&mut [0])), Errno::AFNOSUPPORT);
        assert_eq!(ours.recv(&mut [0; 9]).unwrap(), 3);
    });
}
