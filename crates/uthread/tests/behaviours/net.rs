//! Listeners and streams behave like those of `std`: in fibers, on plain threads, and between the
//! two.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{self, Shutdown};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;
use std::{fs, thread};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours, lacks};
use crate::support::{
    FREE, assert_same, drain, errno, join, narrow, pair, pair_with_std, pattern, peer,
};
use rustix::io::{Errno, FdFlags};
use uthread::net::{TcpListener, TcpStream, UnixListener, UnixStream};

behaviours![(
    EVERYWHERE,
    [
        a_connection_carries_bytes_both_ways_and_knows_its_addresses,
        a_read_returns_what_is_there_and_zero_at_the_end,
        an_empty_write_writes_nothing,
        vectored_calls_keep_the_order,
        vectored_calls_take_all_pieces_at_once,
        vectored_calls_without_a_byte_wait_for_nothing,
        peeking_leaves_the_bytes,
        shutting_reading_down_ends_a_read_that_waits,
        clones_are_one_connection_that_ends_with_the_last,
        clones_of_a_listener_accept_from_one_queue,
        many_connections_wait_to_be_accepted,
        incoming_yields_each_connection,
        conversions_keep_the_descriptor_and_what_it_holds,
        options_are_those_of_the_socket,
        no_descriptor_is_inherited_by_other_programs,
        nonblocking_calls_never_wait,
        a_stream_goes_from_a_fiber_to_a_thread_and_back,
        large_transfers_arrive_whole_in_both_directions_at_once,
        many_connections_are_served_at_once
    ]
)];

fn a_connection_carries_bytes_both_ways_and_knows_its_addresses(place: Place) {
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        assert_ne!(address.port(), 0);
        let mut client = TcpStream::connect(address).unwrap();
        let (mut server, from) = listener.accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap());
        assert_eq!(from, server.peer_addr().unwrap());
        assert_eq!(address, server.local_addr().unwrap());
        assert_eq!(address, client.peer_addr().unwrap());

        client.write_all(b"question").unwrap();
        let mut text = [0; 8];
        server.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"question");
        server.write_all(b"answer").unwrap();
        server.flush().unwrap();
        drop(server);
        assert_eq!(drain(client), b"answer");
    });
}

fn a_read_returns_what_is_there_and_zero_at_the_end(place: Place) {
    place.run(|| {
        let (mut ours, mut peer) = pair_with_std();
        peer.write_all(b"few").unwrap();
        let mut buffer = [7; 100];
        assert_eq!(ours.read(&mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..5], b"few\x07\x07");
        peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(ours.read(&mut buffer).unwrap(), 0);
        assert_eq!(ours.read(&mut buffer).unwrap(), 0);
        // The other direction is still open.
        ours.write_all(b"more").unwrap();
        drop(ours);
        assert_eq!(drain(peer), b"more");
    });
}

fn an_empty_write_writes_nothing(place: Place) {
    place.run(|| {
        let (mut ours, peer) = pair_with_std();
        assert_eq!(ours.write(&[]).unwrap(), 0);
        drop(ours);
        assert_eq!(drain(peer), b"");
    });
}

fn vectored_calls_keep_the_order(place: Place) {
    place.run(|| {
        let (mut ours, peer) = pair_with_std();
        let parts: [&[u8]; 4] = [b"", b"one ", b"two ", b"three"];
        let mut slices = parts.map(IoSlice::new);
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let count = ours.write_vectored(rest).unwrap();
            IoSlice::advance_slices(&mut rest, count);
        }
        ours.shutdown(Shutdown::Write).unwrap();
        assert_eq!(drain(&peer), b"one two three");

        (&peer).write_all(b"abcdef").unwrap();
        let (mut none, mut some) = ([0; 0], [0; 6]);
        let mut count = 0;
        while count < 6 {
            let mut slices = [
                IoSliceMut::new(&mut none),
                IoSliceMut::new(&mut some[count..]),
            ];
            count += ours.read_vectored(&mut slices).unwrap();
        }
        assert_eq!(&some, b"abcdef");
    });
}

/// Expects no error where there are more pieces than the kernel takes at once: the first of them
/// go.
fn vectored_calls_take_all_pieces_at_once(place: Place) {
    place.run(|| {
        let (mut ours, mut theirs) = pair();
        let sent = ours.write_vectored(&[b"one ", b"two "].map(|text| IoSlice::new(text)));
        assert_eq!(sent.unwrap(), 8);
        let mut parts = [[0; 4]; 2];
        let mut slices = parts.each_mut().map(|part| IoSliceMut::new(part));
        assert_eq!(theirs.read_vectored(&mut slices).unwrap(), 8);
        assert_eq!(&parts, &[*b"one ", *b"two "]);

        let sent = ours.write_vectored(&[IoSlice::new(b"x"); 2000]).unwrap();
        assert_eq!(sent, 1024);
        let mut bytes = [0; 2000];
        let mut slices: Vec<_> = bytes.chunks_mut(1).map(IoSliceMut::new).collect();
        assert_eq!(theirs.read_vectored(&mut slices).unwrap(), 1024);
        theirs.set_nonblocking(true).unwrap();
        assert_eq!(errno(theirs.read_vectored(&mut slices)), Errno::AGAIN);
        assert_eq!(bytes[..1024], [b'x'; 1024]);
    });
}

/// Catches a wait for bytes or for the peer: `readv` and `writev` of nothing do not look at the
/// socket.
fn vectored_calls_without_a_byte_wait_for_nothing(place: Place) {
    place.run(|| {
        let (mut ours, _peer) = pair();
        let mut none = [[0; 0]; 1025];
        assert_eq!(ours.read_vectored(&mut []).unwrap(), 0);
        let mut slices: Vec<_> = none.iter_mut().map(|none| IoSliceMut::new(none)).collect();
        assert_eq!(ours.read_vectored(&mut slices).unwrap(), 0);
        // The last piece is beyond what one call takes.
        let mut some = [0; 1];
        slices[1024] = IoSliceMut::new(&mut some);
        assert_eq!(ours.read_vectored(&mut slices).unwrap(), 0);
        ours.shutdown(Shutdown::Write).unwrap();
        assert_eq!(
            errno(ours.write_vectored(&[IoSlice::new(b"x")])),
            Errno::PIPE
        );
        assert_eq!(ours.write_vectored(&[]).unwrap(), 0);
        assert_eq!(ours.write_vectored(&[IoSlice::new(b"")]).unwrap(), 0);
    });
}

fn peeking_leaves_the_bytes(place: Place) {
    place.run(|| {
        let (mut ours, mut peer) = pair_with_std();
        peer.write_all(b"seen twice").unwrap();
        let mut buffer = [0; 4];
        for _ in 0..2 {
            assert_eq!(ours.peek(&mut buffer).unwrap(), 4);
            assert_eq!(&buffer, b"seen");
        }
        drop(peer);
        assert_eq!(drain(&mut ours), b"seen twice");
        assert_eq!(ours.peek(&mut buffer).unwrap(), 0);
    });
}

fn shutting_reading_down_ends_a_read_that_waits(place: Place) {
    place.run(|| {
        let (ours, _peer) = pair_with_std();
        let read = || (&ours).read(&mut [0; 10]);
        let end = || ours.shutdown(Shutdown::Read).unwrap();
        assert_eq!(place.meanwhile(read, end).unwrap(), 0);
    });
}

fn clones_are_one_connection_that_ends_with_the_last(place: Place) {
    place.run(|| {
        let (mut first, mut peer) = pair_with_std();
        let mut second = first.try_clone().unwrap();
        assert_ne!(first.as_raw_fd(), second.as_raw_fd());
        first.write_all(b"one").unwrap();
        drop(first);
        second.write_all(b" connection").unwrap();
        peer.write_all(b"!").unwrap();
        let mut mark = [0];
        second.read_exact(&mut mark).unwrap();
        assert_eq!(&mark, b"!");
        drop(second);
        assert_eq!(drain(peer), b"one connection");
    });
}

fn clones_of_a_listener_accept_from_one_queue(place: Place) {
    place.run(|| {
        let first = TcpListener::bind(FREE).unwrap();
        let second = first.try_clone().unwrap();
        let address = second.local_addr().unwrap();
        let clients = [(); 2].map(|()| net::TcpStream::connect(address).unwrap());
        let (_first, from_first) = first.accept().unwrap();
        drop(first);
        let (_second, from_second) = second.accept().unwrap();
        let froms = clients.map(|client| client.local_addr().unwrap());
        assert_eq!([from_first, from_second], froms);
    });
}

/// Connects more often than the queue of a listener of `std` takes. Where one does not fit, the
/// kernel tries again after a second, and then ever more rarely.
fn many_connections_wait_to_be_accepted(place: Place) {
    const MANY: usize = 300;
    let limit = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    if limit.trim().parse::<usize>().unwrap() < MANY {
        lacks("net.core.somaxconn is low");
    }
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(10));
        let _clients: Vec<_> = (0..MANY).map(|_| connect().unwrap()).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let unix = UnixListener::bind(&path).unwrap();
        let _clients: Vec<_> = (0..MANY)
            .map(|_| UnixStream::connect(&path).unwrap())
            .collect();
        for _ in 0..MANY {
            listener.accept().unwrap();
            unix.accept().unwrap();
        }
    });
}

fn incoming_yields_each_connection(place: Place) {
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        let clients = peer(move || {
            for number in 0..5 {
                let mut client = net::TcpStream::connect(address).unwrap();
                client.write_all(&[number]).unwrap();
            }
        });
        let numbers: Vec<u8> = listener
            .incoming()
            .take(5)
            .map(|stream| drain(stream.unwrap())[0])
            .collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        join(clients);
    });
}

fn conversions_keep_the_descriptor_and_what_it_holds(place: Place) {
    place.run(|| {
        let (ours, mut peer) = pair_with_std();
        peer.write_all(b"buffered").unwrap();
        let number = ours.as_fd().as_raw_fd();
        let std = net::TcpStream::from(ours);
        assert_eq!(std.as_raw_fd(), number);
        let fd = OwnedFd::from(TcpStream::from(std));
        assert_eq!(fd.as_raw_fd(), number);
        let raw = TcpStream::from(fd).into_raw_fd();
        assert_eq!(raw, number);
        #[allow(unsafe_code, reason = "the descriptor comes from the line above")]
        // SAFETY: `into_raw_fd` has just given its ownership up.
        let ours = unsafe { TcpStream::from_raw_fd(raw) };
        drop(peer);
        assert_eq!(drain(ours), b"buffered");

        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        let client = net::TcpStream::connect(address).unwrap();
        let number = listener.as_raw_fd();
        let std = net::TcpListener::from(listener);
        let listener = TcpListener::from(OwnedFd::from(TcpListener::from(std)));
        assert_eq!(listener.as_fd().as_raw_fd(), number);
        let (_, from) = listener.accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap());
    });
}

fn options_are_those_of_the_socket(place: Place) {
    place.run(|| {
        let (ours, _peer) = pair_with_std();
        let std = net::TcpStream::from(ours.as_fd().try_clone_to_owned().unwrap());
        for on in [true, false] {
            ours.set_nodelay(on).unwrap();
            assert_eq!((ours.nodelay().unwrap(), std.nodelay().unwrap()), (on, on));
        }
        ours.set_ttl(42).unwrap();
        assert_eq!((ours.ttl().unwrap(), std.ttl().unwrap()), (42, 42));
        assert!(ours.take_error().unwrap().is_none());
        let listener = TcpListener::bind(FREE).unwrap();
        listener.set_ttl(43).unwrap();
        assert_eq!(listener.ttl().unwrap(), 43);
        assert!(listener.take_error().unwrap().is_none());
    });
}

fn no_descriptor_is_inherited_by_other_programs(place: Place) {
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let clone = server.try_clone().unwrap();
        for fd in [
            listener.as_fd(),
            client.as_fd(),
            server.as_fd(),
            clone.as_fd(),
        ] {
            assert_eq!(rustix::io::fcntl_getfd(fd).unwrap(), FdFlags::CLOEXEC);
        }
    });
}

fn nonblocking_calls_never_wait(place: Place) {
    place.run(|| {
        let (ours, mut peer) = pair_with_std();
        let clone = ours.try_clone().unwrap();
        clone.set_nonblocking(true).unwrap();
        let mut byte = [0];
        assert_eq!(errno((&ours).read(&mut byte)), Errno::AGAIN);
        assert_eq!(errno(ours.peek(&mut byte)), Errno::AGAIN);
        narrow(&ours, &peer);
        let full = loop {
            if let Err(error) = (&ours).write(&[0; 64 * 1024]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        // The setting is the socket's: a conversion keeps it.
        let ours = TcpStream::from(net::TcpStream::from(ours));
        assert_eq!(errno((&ours).read(&mut byte)), Errno::AGAIN);
        ours.set_nonblocking(false).unwrap();
        peer.write_all(b"!").unwrap();
        (&ours).read_exact(&mut byte).unwrap();

        let listener = TcpListener::bind(FREE).unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(errno(listener.accept()), Errno::AGAIN);
        let listener = TcpListener::from(net::TcpListener::from(listener));
        assert_eq!(errno(listener.accept()), Errno::AGAIN);
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        listener.accept().unwrap();
    });
}

fn a_stream_goes_from_a_fiber_to_a_thread_and_back(place: Place) {
    place.run(|| {
        let (ours, mut peer) = pair_with_std();
        peer.write_all(b"123").unwrap();
        let mut digits = [0; 3];
        let read = |mut stream: TcpStream, digit: &mut u8| {
            stream.read_exact(std::slice::from_mut(digit)).unwrap();
            stream
        };
        let ours = read(ours, &mut digits[0]);
        let ours = uthread::blocking(|| read(ours, &mut digits[1]));
        read(ours, &mut digits[2]);
        assert_eq!(&digits, b"123");
    });
}

fn large_transfers_arrive_whole_in_both_directions_at_once(place: Place) {
    const LENGTH: usize = 4 << 20;
    fn both_ways(stream: impl Read + Send, sink: impl Write + Send, seed: usize) {
        let (mut stream, mut sink) = (stream, sink);
        let mut received = vec![0; LENGTH];
        uthread::scope(|scope| {
            scope.spawn(move || sink.write_all(&pattern(LENGTH, seed)).unwrap());
            stream.read_exact(&mut received).unwrap();
        });
        assert_same(&received, &pattern(LENGTH, 3 - seed));
    }
    place.run(|| {
        let (ours, std) = pair_with_std();
        let theirs = peer(move || {
            thread::scope(|scope| {
                scope.spawn(|| (&std).write_all(&pattern(LENGTH, 2)).unwrap());
                let mut received = vec![0; LENGTH];
                (&std).read_exact(&mut received).unwrap();
                assert_same(&received, &pattern(LENGTH, 1));
            });
        });
        both_ways(ours.try_clone().unwrap(), ours, 1);
        join(theirs);
    });
    place.run(|| {
        let (ours, theirs) = pair();
        uthread::scope(|scope| {
            scope.spawn(|| both_ways(&theirs, &theirs, 2));
            both_ways(&ours, &ours, 1);
        });
    });
}

fn many_connections_are_served_at_once(place: Place) {
    const CONNECTIONS: usize = 200;
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        let clients = peer(move || {
            let mut clients: Vec<_> = (0..CONNECTIONS)
                .map(|_| net::TcpStream::connect(address).unwrap())
                .collect();
            // The last is served while all others are open and silent.
            for (seed, client) in (0..CONNECTIONS).zip(&mut clients).rev() {
                client.write_all(&pattern(1000, seed)).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
                assert_same(&drain(client), &pattern(1000, seed));
            }
        });
        uthread::scope(|scope| {
            for stream in listener.incoming().take(CONNECTIONS) {
                let stream = stream.unwrap();
                scope.spawn(move || std::io::copy(&mut &stream, &mut &stream).unwrap());
            }
        });
        join(clients);
    });
}
