//! Receives into empty buffers: a stream waits for bytes also if it is to receive none, and the
//! result depends on its kind.

use std::io::{ErrorKind, IoSliceMut, Read, Write};
use std::net;
use std::os::unix;
use std::time::Instant;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::{HOUR, SOCKET_TIMEOUT, errno, join, pair_with_std, peer};
use rustix::io::Errno;
use uthread::net::UnixStream;

behaviours![(
    EVERYWHERE,
    [
        a_receive_into_an_empty_buffer_ends_as_in_std,
        a_peek_into_an_empty_buffer_ends_as_a_receive,
        a_receive_into_an_empty_buffer_waits_for_bytes,
    ]
)];

/// Receives into an empty buffer at the timeout, without waiting, with a byte in the queue, and at
/// the end of the stream.
macro_rules! receive_nothing {
    ($stream:expr, $peer:expr) => {{
        let (mut stream, mut peer) = ($stream, $peer);
        let mut results = Vec::new();
        stream.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        let begin = Instant::now();
        results.push(stream.read(&mut []).map_err(|error| error.kind()));
        assert!(begin.elapsed() >= SOCKET_TIMEOUT, "{:?}", begin.elapsed());
        // `readv` does not look at the socket.
        let mut nothing = [];
        let buffers = &mut [IoSliceMut::new(&mut nothing)];
        results.push(stream.read_vectored(buffers).map_err(|error| error.kind()));
        stream.set_nonblocking(true).unwrap();
        results.push(stream.read(&mut []).map_err(|error| error.kind()));
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(HOUR)).unwrap();
        peer.write_all(&[7]).unwrap();
        results.push(stream.read(&mut []).map_err(|error| error.kind()));
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [7]);
        drop(peer);
        results.push(stream.read(&mut []).map_err(|error| error.kind()));
        results
    }};
}

fn a_receive_into_an_empty_buffer_ends_as_in_std(place: Place) {
    place.run(|| {
        let would_block = Err(ErrorKind::WouldBlock);
        // A TCP connection that has received as much as it was asked for reports no timeout.
        let tcp = [Ok(0), Ok(0), would_block, Ok(0), Ok(0)];
        let (theirs, peer) = pair_with_std();
        let theirs = net::TcpStream::from(theirs);
        let std = uthread::blocking(|| receive_nothing!(theirs, peer));
        assert_eq!(std, tcp, "std");
        let (ours, peer) = pair_with_std();
        assert_eq!(receive_nothing!(ours, peer), tcp);

        let unix = [would_block, Ok(0), would_block, Ok(0), Ok(0)];
        let (theirs, peer) = unix::net::UnixStream::pair().unwrap();
        let std = uthread::blocking(|| receive_nothing!(theirs, peer));
        assert_eq!(std, unix, "std");
        let (ours, peer) = UnixStream::pair().unwrap();
        assert_eq!(receive_nothing!(ours, peer), unix);
    });
}

fn a_peek_into_an_empty_buffer_ends_as_a_receive(place: Place) {
    place.run(|| {
        let (ours, mut peer) = pair_with_std();
        ours.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        let begin = Instant::now();
        assert_eq!(ours.peek(&mut []).unwrap(), 0);
        assert!(begin.elapsed() >= SOCKET_TIMEOUT, "{:?}", begin.elapsed());
        ours.set_nonblocking(true).unwrap();
        assert_eq!(errno(ours.peek(&mut [])), Errno::AGAIN);
        ours.set_nonblocking(false).unwrap();
        ours.set_read_timeout(Some(HOUR)).unwrap();
        peer.write_all(&[7]).unwrap();
        assert_eq!(ours.peek(&mut []).unwrap(), 0);
    });
}

fn a_receive_into_an_empty_buffer_waits_for_bytes(place: Place) {
    place.run(|| {
        let (mut ours, mut theirs) = pair_with_std();
        for timeout in [None, Some(HOUR)] {
            ours.set_read_timeout(timeout).unwrap();
            let begin = Instant::now();
            let writing = peer(move || {
                std::thread::sleep(SOCKET_TIMEOUT);
                theirs.write_all(&[7]).unwrap();
                theirs
            });
            assert_eq!(ours.read(&mut []).unwrap(), 0);
            assert!(begin.elapsed() >= SOCKET_TIMEOUT, "{:?}", begin.elapsed());
            theirs = join(writing);
            ours.read_exact(&mut [0]).unwrap();
        }
    });
}
