//! Unix datagrams behave like those of `std`: none is lost, and a sender waits while the receiver's
//! queue is full.

use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net;
use std::time::Instant;

use super::unix::{free_name, free_path};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::{HANG, SOCKET_TIMEOUT, errno, kind, wait_until_asleep};
use rustix::io::Errno;
use uthread::net::UnixDatagram;
use uthread::net::unix::SocketAddr;

behaviours![
    (
        EVERYWHERE,
        [
            datagrams_come_with_the_address_of_the_sender,
            abstract_names_are_addresses_too,
            datagrams_are_received_one_by_one,
            bytes_beyond_the_buffer_are_lost_and_the_next_datagram_is_whole,
            a_connected_send_waits_for_the_receiver,
            a_send_to_an_address_waits_for_the_receiver,
            a_send_waits_for_room_of_its_own,
            a_receiver_that_goes_away_ends_a_send_that_waits,
            a_send_ends_at_its_timeout,
            a_nonblocking_socket_does_not_wait,
            missing_sockets_are_errors_of_std,
            the_end_of_a_direction_ends_a_receive,
            clones_and_conversions_are_the_same_socket
        ]
    ),
    (IN_FIBERS, [a_send_that_waits_is_cancelled]),
];

/// Returns a socket that receives at an address, and the address.
fn receiver() -> (UnixDatagram, SocketAddr) {
    let address = free_name();
    (UnixDatagram::bind_addr(&address).unwrap(), address)
}

/// Sends until the queue of the receiver is full; how many it took.
fn fill(address: &SocketAddr) -> usize {
    let sender = net::UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    (0..)
        .take_while(|_| sender.send_to_addr(b"full", address).is_ok())
        .count()
}

fn datagrams_come_with_the_address_of_the_sender(place: Place) {
    place.run(|| {
        let (_directory, path) = free_path();
        let (own, there) = (path.with_extension("own"), &path);
        let ours = UnixDatagram::bind(&own).unwrap();
        let theirs = net::UnixDatagram::bind(there).unwrap();
        assert_eq!(ours.send_to(b"question", there).unwrap(), 8);
        let mut buffer = [0; 20];
        let (count, from) = theirs.recv_from(&mut buffer).unwrap();
        assert_eq!((count, from.as_pathname()), (8, Some(&*own)));
        theirs.send_to(b"answer", &own).unwrap();
        for _ in 0..2 {
            let (count, from) = ours.peek_from(&mut buffer).unwrap();
            assert_eq!((count, from.as_pathname()), (6, Some(&**there)));
        }
        let (count, from) = ours.recv_from(&mut buffer).unwrap();
        assert_eq!((count, from.as_pathname()), (6, Some(&**there)));
        // One without an address is reported to have none.
        let nobody = UnixDatagram::unbound().unwrap();
        nobody.connect(&own).unwrap();
        assert_eq!(nobody.peer_addr().unwrap().as_pathname(), Some(&*own));
        nobody.send(b"guess").unwrap();
        let (count, from) = ours.recv_from(&mut buffer).unwrap();
        assert_eq!((count, from.is_unnamed()), (5, true));
    });
}

fn abstract_names_are_addresses_too(place: Place) {
    place.run(|| {
        let ((ours, here), (theirs, there)) = (receiver(), receiver());
        ours.connect_addr(&there).unwrap();
        ours.send(b"text").unwrap();
        let (count, from) = theirs.recv_from(&mut [0; 9]).unwrap();
        assert_eq!(count, 4);
        assert_eq!(from.as_abstract_name(), here.as_abstract_name());
        theirs.send_to_addr(b"back", &here).unwrap();
        assert_eq!(ours.recv(&mut [0; 9]).unwrap(), 4);
        let local = ours.local_addr().unwrap();
        assert_eq!(local.as_abstract_name(), here.as_abstract_name());
    });
}

/// Catches a wait for a datagram that is there already, after a receive shorter than its buffer.
fn datagrams_are_received_one_by_one(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        for _ in 0..2 {
            let send = || (1..=9).for_each(|length| assert!(theirs.send(&[length; 9]).is_ok()));
            let received = place.meanwhile(|| ours.recv(&mut [0; 100]), send);
            assert_eq!(received.unwrap(), 9);
            for number in 2..=9 {
                let mut buffer = [0; 100];
                assert_eq!(ours.recv(&mut buffer).unwrap(), 9);
                assert_eq!((buffer[0], buffer[9]), (number, 0));
            }
            theirs.send(b"").unwrap();
            assert_eq!(ours.recv(&mut [0; 100]).unwrap(), 0);
        }
    });
}

fn bytes_beyond_the_buffer_are_lost_and_the_next_datagram_is_whole(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        theirs.send(b"too long").unwrap();
        theirs.send(b"next").unwrap();
        let mut buffer = [0; 4];
        assert_eq!(ours.peek(&mut buffer).unwrap(), 4);
        assert_eq!(ours.recv(&mut buffer).unwrap(), 4);
        assert_eq!(&buffer, b"too ");
        assert_eq!(ours.recv(&mut buffer).unwrap(), 4);
        assert_eq!(&buffer, b"next");
        theirs.set_send_buffer_size(10_000).unwrap();
        assert_eq!(errno(theirs.send(&[0; 100_000])), Errno::MSGSIZE);
    });
}

fn a_connected_send_waits_for_the_receiver(place: Place) {
    place.run(|| {
        let (ours, address) = receiver();
        let sender = UnixDatagram::unbound().unwrap();
        sender.connect_addr(&address).unwrap();
        let queued = fill(&address);
        let send = || sender.send(b"at last");
        let receive = || assert_eq!(ours.recv(&mut [0; 9]).unwrap(), 4);
        assert_eq!(place.meanwhile(send, receive).unwrap(), 7);
        for _ in 1..queued {
            assert_eq!(ours.recv(&mut [0; 9]).unwrap(), 4);
        }
        assert_eq!(ours.recv(&mut [0; 9]).unwrap(), 7);
    });
}

/// Catches a sender that believes the kernel: it says that such a socket is always ready to send.
fn a_send_to_an_address_waits_for_the_receiver(place: Place) {
    for timeout in [None, Some(HANG)] {
        place.run(|| {
            let (ours, address) = receiver();
            let sender = UnixDatagram::unbound().unwrap();
            sender.set_write_timeout(timeout).unwrap();
            for _ in 0..2 {
                let queued = fill(&address);
                let send = || sender.send_to_addr(b"at last", &address);
                let receive = || assert_eq!(ours.recv(&mut [0; 9]).unwrap(), 4);
                assert_eq!(place.meanwhile(send, receive).unwrap(), 7);
                for _ in 1..queued {
                    assert_eq!(ours.recv(&mut [0; 9]).unwrap(), 4);
                }
                assert_eq!(ours.recv(&mut [0; 9]).unwrap(), 7);
            }
        });
    }
}

/// Covers two sockets that are connected to each other: they have no bound but the sender's buffer.
fn a_send_waits_for_room_of_its_own(place: Place) {
    place.run(|| {
        let (ours, here) = receiver();
        let (sender, there) = receiver();
        ours.connect_addr(&there).unwrap();
        sender.connect_addr(&here).unwrap();
        let full = || {
            sender.set_nonblocking(true).unwrap();
            let sent = (0..)
                .take_while(|_| sender.send(&[1; 1000]).is_ok())
                .count();
            sender.set_nonblocking(false).unwrap();
            sent
        };
        let empty = |count| (0..count).for_each(|_| assert!(ours.recv(&mut [0; 9]).is_ok()));
        let sent = full();
        let again = place.meanwhile(|| sender.send(&[2; 1000]), || empty(sent));
        assert_eq!(again.unwrap(), 1000);
        empty(1);
        let sent = full();
        let send = || sender.send_to_addr(&[2; 1000], &here);
        assert_eq!(place.meanwhile(send, || empty(sent)).unwrap(), 1000);
    });
}

fn a_receiver_that_goes_away_ends_a_send_that_waits(place: Place) {
    for connected in [true, false] {
        place.run(|| {
            let (ours, address) = receiver();
            let sender = UnixDatagram::unbound().unwrap();
            sender.connect_addr(&address).unwrap();
            fill(&address);
            let send = || {
                if connected {
                    sender.send(b"!")
                } else {
                    sender.send_to_addr(b"!", &address)
                }
            };
            let sent = place.meanwhile(send, || drop(ours));
            assert_eq!(errno(sent), Errno::CONNREFUSED);
        });
    }
}

fn a_send_ends_at_its_timeout(place: Place) {
    place.run(|| {
        let (_ours, address) = receiver();
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_write_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        sender.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        fill(&address);
        let start = Instant::now();
        assert_eq!(errno(sender.send_to_addr(b"!", &address)), Errno::AGAIN);
        sender.connect_addr(&address).unwrap();
        assert_eq!(errno(sender.send(b"!")), Errno::AGAIN);
        assert_eq!(errno(sender.recv(&mut [0])), Errno::AGAIN);
        assert_eq!(errno(sender.recv_from(&mut [0])), Errno::AGAIN);
        let elapsed = start.elapsed();
        assert!((4 * SOCKET_TIMEOUT..HANG).contains(&elapsed), "{elapsed:?}");
    });
}

fn a_nonblocking_socket_does_not_wait(place: Place) {
    place.run(|| {
        let (ours, address) = receiver();
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_nonblocking(true).unwrap();
        ours.set_nonblocking(true).unwrap();
        assert_eq!(errno(ours.recv(&mut [0])), Errno::AGAIN);
        fill(&address);
        assert_eq!(errno(sender.send_to_addr(b"!", &address)), Errno::AGAIN);
        sender.connect_addr(&address).unwrap();
        assert_eq!(errno(sender.send(b"!")), Errno::AGAIN);
        ours.recv_from(&mut [0]).unwrap();
        assert_eq!(sender.send(b"!").unwrap(), 1);
    });
}

fn missing_sockets_are_errors_of_std(place: Place) {
    place.run(|| {
        let (_directory, path) = free_path();
        let sender = UnixDatagram::unbound().unwrap();
        assert_eq!(errno(sender.send(b"!")), Errno::NOTCONN);
        assert_eq!(errno(sender.peer_addr()), Errno::NOTCONN);
        assert_eq!(errno(sender.send_to(b"!", &path)), Errno::NOENT);
        drop(UnixDatagram::bind(&path).unwrap());
        assert_eq!(errno(sender.send_to(b"!", &path)), Errno::CONNREFUSED);
        assert_eq!(errno(sender.connect(&path)), Errno::CONNREFUSED);
        assert_eq!(errno(UnixDatagram::bind(&path)), Errno::ADDRINUSE);
        let long = "/".repeat(108);
        assert_eq!(kind(sender.send_to(b"!", &long)), ErrorKind::InvalidInput);
        assert_eq!(kind(UnixDatagram::bind(&long)), ErrorKind::InvalidInput);
        // A connected socket receives only from its peer.
        let ((ours, here), (_other, there)) = (receiver(), receiver());
        ours.connect_addr(&there).unwrap();
        assert_eq!(errno(sender.send_to_addr(b"!", &here)), Errno::PERM);
    });
}

fn the_end_of_a_direction_ends_a_receive(place: Place) {
    place.run(|| {
        let (ours, _theirs) = UnixDatagram::pair().unwrap();
        let end = || ours.shutdown(Shutdown::Read).unwrap();
        assert_eq!(place.meanwhile(|| ours.recv(&mut [0]), end).unwrap(), 0);
        ours.shutdown(Shutdown::Write).unwrap();
        assert_eq!(errno(ours.send(b"!")), Errno::PIPE);
    });
}

fn clones_and_conversions_are_the_same_socket(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let clone = ours.try_clone().unwrap();
        drop(ours);
        let number = clone.as_raw_fd();
        let std = net::UnixDatagram::from(clone);
        let ours = UnixDatagram::from(OwnedFd::from(UnixDatagram::from(std)));
        assert_eq!(ours.as_raw_fd(), number);
        ours.send(b"the same").unwrap();
        assert!(ours.take_error().unwrap().is_none());
        assert_eq!(theirs.recv(&mut [0; 9]).unwrap(), 8);
    });
}

fn a_send_that_waits_is_cancelled(place: Place) {
    for connected in [true, false] {
        let (ours, address) = receiver();
        let sender = UnixDatagram::unbound().unwrap();
        sender.connect_addr(&address).unwrap();
        fill(&address);
        let runtime = place.runtime();
        let (tell, thread) = std::sync::mpsc::channel();
        let fiber = runtime.spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            if connected {
                sender.send(b"!")
            } else {
                sender.send_to_addr(b"!", &address)
            }
        });
        wait_until_asleep(thread.recv().unwrap());
        drop(runtime);
        let sent = fiber.join().expect("an error, no unwinding");
        assert_eq!(errno(sent), Errno::CANCELED);
        drop(ours);
    }
}
