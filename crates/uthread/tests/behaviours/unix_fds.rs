//! Descriptors that travel with bytes: they arrive open, in their order, and none is left behind.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::{errno, kind, limit_descriptors, open_descriptors};
use rustix::io::{Errno, FdFlags};
use uthread::net::unix::FDS_MAX;
use uthread::net::{UnixDatagram, UnixStream};

behaviours![(
    EVERYWHERE,
    [
        descriptors_arrive_in_their_order_and_work,
        a_receive_waits_for_descriptors,
        no_descriptor_is_inherited_by_other_programs,
        descriptors_come_with_the_first_of_their_bytes,
        more_than_asked_for_are_closed_and_reported,
        as_many_as_the_kernel_takes_arrive,
        more_than_the_kernel_takes_are_refused,
        descriptors_need_a_byte_on_a_stream_alone,
        without_a_free_descriptor_those_that_do_not_fit_are_reported,
        a_plain_read_closes_what_comes_along,
        a_truncated_datagram_is_reported,
        a_nonblocking_socket_does_not_wait
    ]
)];

/// Creates pipes that contain their numbers, and returns their read ends.
fn numbered(count: u8) -> Vec<OwnedFd> {
    let pipe = |number| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&[number]).unwrap();
        reader.into()
    };
    (0..count).map(pipe).collect()
}

fn borrowed(fds: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    fds.iter().map(AsFd::as_fd).collect()
}

/// Reads the numbers from the pipes.
fn numbers(fds: Vec<OwnedFd>) -> Vec<u8> {
    let number = |fd: OwnedFd| {
        let mut byte = [0];
        File::from(fd).read_exact(&mut byte).unwrap();
        byte[0]
    };
    fds.into_iter().map(number).collect()
}

fn descriptors_arrive_in_their_order_and_work(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let fds = numbered(3);
        assert_eq!(theirs.send_fds(b"three", &borrowed(&fds)).unwrap(), 5);
        drop(fds);
        let mut buffer = [0; 9];
        let received = ours.recv_fds(&mut buffer, 10).unwrap();
        assert_eq!(&buffer[..received.bytes], b"three");
        assert_eq!((received.fds_lost, received.is_truncated), (false, false));
        assert_eq!(numbers(received.fds), [0, 1, 2]);
        // Without any it is a plain message.
        theirs.send_fds(b"none", &[]).unwrap();
        let received = ours.recv_fds(&mut buffer, 10).unwrap();
        assert_eq!((received.bytes, received.fds.len()), (4, 0));
        drop(theirs);
        assert_eq!(ours.recv_fds(&mut buffer, 10).unwrap().bytes, 0);
    });
}

fn a_receive_waits_for_descriptors(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        for _ in 0..3 {
            let send = || drop(theirs.send_fds(b"!", &borrowed(&numbered(2))));
            let receive = || ours.recv_fds(&mut [0; 9], 2).unwrap();
            let received = place.meanwhile(receive, send);
            assert_eq!(numbers(received.fds), [0, 1]);
        }
    });
}

fn no_descriptor_is_inherited_by_other_programs(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.send_fds(b"!", &[theirs.as_fd()]).unwrap();
        let received = ours.recv_fds(&mut [0], 1).unwrap();
        let flags = rustix::io::fcntl_getfd(&received.fds[0]).unwrap();
        assert_eq!(flags, FdFlags::CLOEXEC);
    });
}

fn descriptors_come_with_the_first_of_their_bytes(place: Place) {
    place.run(|| {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"before").unwrap();
        theirs.send_fds(b"with", &borrowed(&numbered(1))).unwrap();
        theirs.write_all(b"after").unwrap();
        let mut text = [0; 6];
        ours.read_exact(&mut text).unwrap();
        let received = ours.recv_fds(&mut [0; 2], 9).unwrap();
        assert_eq!((received.bytes, numbers(received.fds)), (2, vec![0]));
        let received = ours.recv_fds(&mut [0; 9], 9).unwrap();
        assert_eq!((received.fds.len(), received.fds_lost), (0, false));
    });
}

fn more_than_asked_for_are_closed_and_reported(place: Place) {
    alone(|| {
        place.run(|| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            // The room for them is counted by two.
            for fds_max in 0..5 {
                let before = open_descriptors();
                theirs.send_fds(b"!", &borrowed(&numbered(5))).unwrap();
                let received = ours.recv_fds(&mut [0], fds_max).unwrap();
                assert!(received.fds_lost);
                let expected: Vec<_> = (0..fds_max as u8).collect();
                assert_eq!(numbers(received.fds), expected);
                assert_eq!(open_descriptors(), before);
            }
        });
    });
}

fn as_many_as_the_kernel_takes_arrive(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let all = vec![theirs.as_fd(); FDS_MAX];
        theirs.send_fds(b"!", &all).unwrap();
        let received = ours.recv_fds(&mut [0], usize::MAX).unwrap();
        assert_eq!((received.fds.len(), received.fds_lost), (FDS_MAX, false));
    });
}

fn more_than_the_kernel_takes_are_refused(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let too_many = vec![theirs.as_fd(); FDS_MAX + 1];
        assert_eq!(errno(theirs.send_fds(b"!", &too_many)), Errno::INVAL);
        drop(theirs);
        assert_eq!(ours.recv_fds(&mut [0], 1).unwrap().bytes, 0);
    });
}

fn descriptors_need_a_byte_on_a_stream_alone(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let refused = theirs.send_fds(b"", &[ours.as_fd()]);
        assert_eq!(kind(refused), ErrorKind::InvalidInput);
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        theirs.send_fds(b"", &borrowed(&numbered(2))).unwrap();
        let received = ours.recv_fds(&mut [0; 9], 2).unwrap();
        assert_eq!((received.bytes, numbers(received.fds)), (0, vec![0, 1]));
    });
}

fn without_a_free_descriptor_those_that_do_not_fit_are_reported(place: Place) {
    alone(|| {
        limit_descriptors(128);
        place.run(|| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            theirs.send_fds(b"text", &borrowed(&numbered(3))).unwrap();
            let mut all: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
            all.truncate(all.len() - 2);
            let mut buffer = [0; 9];
            let received = ours.recv_fds(&mut buffer, 3).unwrap();
            drop(all);
            assert_eq!(&buffer[..received.bytes], b"text");
            assert!(received.fds_lost);
            assert_eq!(numbers(received.fds), [0, 1]);
        });
    });
}

fn a_plain_read_closes_what_comes_along(place: Place) {
    alone(|| {
        place.run(|| {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            let before = open_descriptors();
            theirs.send_fds(b"text", &borrowed(&numbered(3))).unwrap();
            assert_eq!(ours.read(&mut [0; 9]).unwrap(), 4);
            assert_eq!(open_descriptors(), before);
            // Descriptors that were not received are closed with the connection.
            theirs.send_fds(b"text", &borrowed(&numbered(3))).unwrap();
            drop((ours, theirs));
            assert_eq!(open_descriptors(), before - 2);
        });
    });
}

fn a_truncated_datagram_is_reported(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        for length in [3, 8] {
            theirs
                .send_fds(b"too long", &borrowed(&numbered(1)))
                .unwrap();
            let received = ours.recv_fds(&mut [0; 8][..length], 1).unwrap();
            assert_eq!((received.bytes, received.fds.len()), (length, 1));
            assert_eq!(received.is_truncated, length == 3);
        }
    });
}

fn a_nonblocking_socket_does_not_wait(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        assert_eq!(errno(ours.recv_fds(&mut [0], 1)), Errno::AGAIN);
        theirs.send_fds(b"!", &borrowed(&numbered(1))).unwrap();
        assert_eq!(numbers(ours.recv_fds(&mut [0], 1).unwrap().fds), [0]);
    });
}
