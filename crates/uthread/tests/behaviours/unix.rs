//! Unix streams and listeners behave like those of `std`: at paths, at abstract names, and as
//! pairs.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::{
    Flag, HANG, SOCKET_TIMEOUT, assert_same, drain, errno, join, kind, pattern, peer, signals,
    wait_until_asleep,
};
use rustix::io::{Errno, FdFlags};
use tempfile::TempDir;
use uthread::net::unix::SocketAddr;
use uthread::net::{UnixListener, UnixStream, serve};

behaviours![
    (
        EVERYWHERE,
        [
            a_stream_at_a_path_carries_bytes_both_ways,
            a_stream_at_an_abstract_name_knows_its_addresses,
            a_pair_is_connected,
            an_accept_and_a_read_wait,
            every_piece_of_a_vectored_write_arrives,
            a_short_read_does_not_end_the_stream,
            connections_come_one_by_one,
            missing_sockets_are_errors_of_std,
            a_connect_waits_while_the_queue_is_full,
            timeouts_end_reads_and_writes,
            a_nonblocking_stream_does_not_wait,
            a_peer_that_goes_away_ends_reads_and_writes,
            clones_and_conversions_are_the_same_socket,
            a_peer_is_known_by_its_process_user_and_group,
            a_server_serves_and_ends_when_its_listener_is_shut_down,
            large_transfers_arrive_whole
        ]
    ),
    (
        IN_FIBERS,
        [
            a_connect_that_waits_for_room_is_cancelled,
            a_connect_that_has_just_begun_is_cancelled
        ]
    ),
];

/// Returns a path where nothing is, for as long as the directory lives.
pub(crate) fn free_path() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    (directory, path)
}

/// Returns a name that nobody has.
pub(crate) fn free_name() -> SocketAddr {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    SocketAddr::from_abstract_name(format!("uthread {process} {number}")).unwrap()
}

fn a_stream_at_a_path_carries_bytes_both_ways(place: Place) {
    place.run(|| {
        let (_directory, path) = free_path();
        let listener = UnixListener::bind(&path).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(address.as_pathname(), Some(&*path));
        let mut ours = UnixStream::connect(&path).unwrap();
        let (mut theirs, from) = listener.accept().unwrap();
        assert!(from.is_unnamed());
        let peer = ours.peer_addr().unwrap();
        assert_eq!(peer.as_pathname(), Some(&*path));
        ours.write_all(b"question").unwrap();
        let mut text = [0; 8];
        theirs.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"question");
        theirs.write_all(b"answer").unwrap();
        theirs.flush().unwrap();
        drop(theirs);
        assert_eq!(drain(ours), b"answer");

        // One that is bound before it connects is known by its path.
        let own = path.with_extension("own");
        let (family, kind) = (
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
        );
        let socket = rustix::net::socket(family, kind, None).unwrap();
        rustix::net::bind(&socket, &rustix::net::SocketAddrUnix::new(&own).unwrap()).unwrap();
        let to = rustix::net::SocketAddrUnix::new(&path).unwrap();
        rustix::net::connect(&socket, &to).unwrap();
        let (_, from) = listener.accept().unwrap();
        assert_eq!(from.as_pathname(), Some(&*own));
    });
}

fn a_stream_at_an_abstract_name_knows_its_addresses(place: Place) {
    place.run(|| {
        let address = free_name();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let again = UnixListener::bind_addr(&address);
        assert_eq!(errno(again), Errno::ADDRINUSE);
        let name = |address: SocketAddr| address.as_abstract_name().unwrap().to_vec();
        assert_eq!(name(listener.local_addr().unwrap()), name(address.clone()));
        let stream = UnixStream::connect_addr(&address).unwrap();
        assert_eq!(name(stream.peer_addr().unwrap()), name(address.clone()));
        listener.accept().unwrap();
        for fd in [listener.as_fd(), stream.as_fd()] {
            assert_eq!(rustix::io::fcntl_getfd(fd).unwrap(), FdFlags::CLOEXEC);
        }
        drop((listener, stream));
        // The abstract address is gone with its listener.
        assert_eq!(
            errno(UnixStream::connect_addr(&address)),
            Errno::CONNREFUSED
        );
    });
}

fn a_pair_is_connected(place: Place) {
    place.run(|| {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        assert!(one.local_addr().unwrap().is_unnamed());
        one.write_all(b"text").unwrap();
        one.shutdown(Shutdown::Write).unwrap();
        assert_eq!(other.peek(&mut [0; 9]).unwrap(), 4);
        assert_eq!(drain(&other), b"text");
        // The other direction is still open.
        other.write_all(b"more").unwrap();
        drop(other);
        assert_eq!(drain(one), b"more");
    });
}

fn an_accept_and_a_read_wait(place: Place) {
    place.run(|| {
        let (_directory, path) = free_path();
        let listener = UnixListener::bind(&path).unwrap();
        let mut client = None;
        let connect = || client = Some(net::UnixStream::connect(&path).unwrap());
        let (ours, _) = place.meanwhile(|| listener.accept(), connect).unwrap();
        let mut client = client.unwrap();
        let read = || (&ours).read(&mut [0; 9]);
        for _ in 0..3 {
            let write = || client.write_all(b"text").unwrap();
            assert_eq!(place.meanwhile(read, write).unwrap(), 4);
        }
        assert_eq!(place.meanwhile(read, || drop(client)).unwrap(), 0);
    });
}

fn every_piece_of_a_vectored_write_arrives(place: Place) {
    place.run(|| {
        let (mut one, other) = UnixStream::pair().unwrap();
        let pieces = [&b"one "[..], b"", b"two"].map(IoSlice::new);
        assert_eq!(one.write_vectored(&pieces).unwrap(), 7);
        drop(one);
        assert_eq!(drain(other), b"one two");
    });
}

/// Sends descriptors, with which a read ends before the buffer is full although more is there.
fn a_short_read_does_not_end_the_stream(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let send = || {
            for text in ["one", "two"] {
                theirs.send_fds(text.as_bytes(), &[theirs.as_fd()]).unwrap();
            }
        };
        let mut buffer = [0; 9];
        let read = || (&ours).read(&mut buffer);
        assert_eq!(place.meanwhile(read, send).unwrap(), 3);
        assert_eq!((&ours).read(&mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..3], b"two");
    });
}

fn connections_come_one_by_one(place: Place) {
    place.run(|| {
        let (_directory, path) = free_path();
        let listener = UnixListener::bind(&path).unwrap();
        let mut clients: Vec<_> = (0..6)
            .map(|_| UnixStream::connect(&path).unwrap())
            .collect();
        for (number, client) in (0..).zip(&mut clients) {
            client.write_all(&[number]).unwrap();
        }
        drop(clients);
        let mut found = Vec::new();
        for stream in listener.incoming().take(3) {
            found.push(drain(stream.unwrap())[0]);
        }
        for stream in &listener {
            found.push(drain(stream.unwrap())[0]);
            if found.len() == 6 {
                break;
            }
        }
        assert_eq!(found, [0, 1, 2, 3, 4, 5]);
    });
}

fn missing_sockets_are_errors_of_std(place: Place) {
    place.run(|| {
        let (_directory, path) = free_path();
        assert_eq!(errno(UnixStream::connect(&path)), Errno::NOENT);
        drop(UnixListener::bind(&path).unwrap());
        assert_eq!(errno(UnixStream::connect(&path)), Errno::CONNREFUSED);
        assert_eq!(errno(UnixListener::bind(&path)), Errno::ADDRINUSE);
        for bad in ["/".repeat(108), "a\0b".to_owned()] {
            let invalid = ErrorKind::InvalidInput;
            assert_eq!(kind(UnixStream::connect(&bad)), invalid);
            assert_eq!(kind(UnixListener::bind(&bad)), invalid);
        }
    });
}

/// Returns a listener that takes no more, as its queue is full.
fn full_listener() -> (UnixListener, SocketAddr, Vec<net::UnixStream>) {
    let address = free_name();
    let listener = UnixListener::bind_addr(&address).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let queued = net::UnixStream::connect_addr(&address).unwrap();
    (listener, address, vec![queued])
}

fn a_connect_waits_while_the_queue_is_full(place: Place) {
    place.run(|| {
        let (listener, address, _queued) = full_listener();
        let connect = || UnixStream::connect_addr(&address);
        let mut ours = place
            .meanwhile(connect, || drop(listener.accept().unwrap()))
            .unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        theirs.write_all(b"!").unwrap();
        ours.read_exact(&mut [0]).unwrap();
    });
    place.run(|| {
        let (listener, address, _queued) = full_listener();
        let connect = || UnixStream::connect_addr(&address);
        let refused = place.meanwhile(connect, || drop(listener));
        assert_eq!(errno(refused), Errno::CONNREFUSED);
    });
}

fn a_connect_that_waits_for_room_is_cancelled(place: Place) {
    let (_listener, address, _queued) = full_listener();
    let runtime = place.runtime();
    let (sender, thread) = std::sync::mpsc::channel();
    let fiber = runtime.spawn(move || {
        sender.send(rustix::thread::gettid()).unwrap();
        UnixStream::connect_addr(&address)
    });
    wait_until_asleep(thread.recv().unwrap());
    drop(runtime);
    let connected = fiber.join().expect("an error, no unwinding");
    assert_eq!(errno(connected), Errno::CANCELED);
}

/// Cancels the connect while the kernel tries it again and again, as it does at first: a
/// cancellation that came then was lost, and the connect waited forever.
fn a_connect_that_has_just_begun_is_cancelled(place: Place) {
    let (_listener, address, _queued) = full_listener();
    place.run(|| {
        let begins = Flag::default();
        let theirs = begins.clone();
        let fiber = uthread::spawn(move || {
            theirs.raise();
            UnixStream::connect_addr(&address)
        });
        begins.wait();
        fiber.cancel();
        let connected = fiber.join().expect("an error, no unwinding");
        assert_eq!(errno(connected), Errno::CANCELED);
    });
}

fn timeouts_end_reads_and_writes(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        ours.set_write_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        let start = Instant::now();
        assert_eq!(errno((&ours).read(&mut [0])), Errno::AGAIN);
        assert!((SOCKET_TIMEOUT..HANG).contains(&start.elapsed()));
        let mut written = 0;
        let error = loop {
            match (&ours).write(&[7; 100_000]) {
                Ok(count) => written += count,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        drop(ours);
        assert_same(&drain(theirs), &vec![7; written]);
    });
}

fn a_nonblocking_stream_does_not_wait(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        assert_eq!(errno((&ours).read(&mut [0])), Errno::AGAIN);
        while (&ours).write(&[0; 1000]).is_ok() {}
        assert_eq!(errno((&ours).write(b"!")), Errno::AGAIN);
        theirs.write_all(b"!").unwrap();
        assert_eq!((&ours).read(&mut [0; 9]).unwrap(), 1);

        let (listener, address, _queued) = full_listener();
        listener.set_nonblocking(true).unwrap();
        listener.accept().unwrap();
        assert_eq!(errno(listener.accept()), Errno::AGAIN);
        let _client = UnixStream::connect_addr(&address).unwrap();
        listener.accept().unwrap();
    });
}

/// Restores SIGPIPE first, as a program may: Rust ignores it.
fn a_peer_that_goes_away_ends_reads_and_writes(place: Place) {
    alone(|| {
        signals::make_broken_pipes_deadly();
        place.run(|| {
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(b"last words").unwrap();
            drop(theirs);
            assert_eq!(drain(&ours), b"last words");
            assert_eq!(errno(ours.write(b"!")), Errno::PIPE);
            let pieces = [IoSlice::new(b"!")];
            assert_eq!(errno(ours.write_vectored(&pieces)), Errno::PIPE);
            assert_eq!(errno(ours.send_fds(b"!", &[ours.as_fd()])), Errno::PIPE);
            // If bytes are unread, the peer sees a reset instead of the end.
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.write_all(b"unread").unwrap();
            let read = || (&ours).read(&mut [0]);
            let read = place.meanwhile(read, || drop(theirs));
            assert_eq!(errno(read), Errno::CONNRESET);
            let (ours, theirs) = UnixStream::pair().unwrap();
            let write = || (&ours).write_all(&[0; 4 << 20]);
            let written = place.meanwhile(write, || drop(theirs));
            assert_eq!(errno(written), Errno::PIPE);
        });
    });
}

fn clones_and_conversions_are_the_same_socket(place: Place) {
    place.run(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(HANG)).unwrap();
        let clone = ours.try_clone().unwrap();
        assert_eq!(clone.read_timeout().unwrap(), Some(HANG));
        drop(ours);
        let number = clone.as_raw_fd();
        let std = net::UnixStream::from(clone);
        assert_eq!(std.read_timeout().unwrap(), Some(HANG));
        let mut ours = UnixStream::from(OwnedFd::from(UnixStream::from(std)));
        assert_eq!(ours.as_raw_fd(), number);
        ours.write_all(b"the same").unwrap();
        assert!(ours.take_error().unwrap().is_none());
        drop(ours);
        assert_eq!(drain(theirs), b"the same");

        let address = free_name();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let std = net::UnixListener::from(listener.try_clone().unwrap());
        drop(listener);
        let _client = UnixStream::connect_addr(&address).unwrap();
        UnixListener::from(std).accept().unwrap();
    });
}

fn a_peer_is_known_by_its_process_user_and_group(place: Place) {
    place.run(|| {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = ours.peer_cred().unwrap();
        assert_eq!(peer.pid, Some(std::process::id().cast_signed()));
        assert_eq!(peer.uid, rustix::process::getuid().as_raw());
        assert_eq!(peer.gid, rustix::process::getgid().as_raw());
    });
}

fn a_server_serves_and_ends_when_its_listener_is_shut_down(place: Place) {
    place.run(|| {
        let address = free_name();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let end = listener.try_clone().unwrap();
        let clients = peer(move || {
            for number in 0..20 {
                let mut client = net::UnixStream::connect_addr(&address).unwrap();
                client.write_all(&[number]).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
                assert_eq!(drain(client), [number]);
            }
            end.shutdown().unwrap();
        });
        serve(&listener, 3, |stream, from| {
            assert!(from.is_unnamed());
            std::io::copy(&mut &stream, &mut &stream).unwrap();
        })
        .unwrap();
        join(clients);
        assert_eq!(errno(listener.accept()), Errno::INVAL);
    });
}

fn large_transfers_arrive_whole(place: Place) {
    const LENGTH: usize = 4 << 20;
    place.run(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        uthread::scope(|scope| {
            scope.spawn(|| (&ours).write_all(&pattern(LENGTH, 1)).unwrap());
            scope.spawn(|| (&theirs).write_all(&pattern(LENGTH, 2)).unwrap());
            for (mut stream, seed) in [(&ours, 2), (&theirs, 1)] {
                scope.spawn(move || {
                    let mut received = vec![0; LENGTH];
                    stream.read_exact(&mut received).unwrap();
                    assert_same(&received, &pattern(LENGTH, seed));
                });
            }
        });
    });
}
