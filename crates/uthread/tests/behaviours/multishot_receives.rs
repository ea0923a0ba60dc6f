//! Multishot receives: every byte arrives in order, in buffers that do not change.

use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use uthread::net::TcpStream;
use uthread::ring::{self, BufferRing, Chunk, Receive};
use uthread::{spawn, yield_now};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, NO_RING, behaviours, lacks};
use crate::support::{HANG, errno, eventually, pair_with_std, pattern, reset};

behaviours![
    (
        EVERYWHERE,
        [
            every_byte_arrives_in_order,
            chunks_that_are_kept_stay_what_they_are,
            the_end_comes_once,
            a_reset_is_an_error,
            a_timeout_loses_no_byte,
            after_a_stop_others_can_read,
            a_dropped_request_receives_no_more,
            few_buffers_serve_many_connections,
            files_other_than_sockets_are_errors,
            a_non_blocking_socket_is_waited_for,
            sizes_that_make_no_sense_are_refused,
        ]
    ),
    (
        IN_FIBERS,
        [
            a_waiter_is_woken,
            a_chunk_outlives_its_runtime,
            the_end_of_the_runtime_ends_the_wait,
            the_end_of_the_runtime_ends_what_was_leaked,
            a_cancelled_fiber_ends_its_request,
        ]
    ),
    (&[NO_RING], [one_request_receives_many_chunks,]),
];

fn buffers(count: u16, size: usize) -> BufferRing {
    BufferRing::new(count, size).unwrap()
}

/// Receives so many bytes.
fn take(chunks: &mut Receive<'_>, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        bytes.extend_from_slice(&chunks.next().expect("no end yet").unwrap());
    }
    bytes
}

fn every_byte_arrives_in_order(place: Place) {
    const BYTES: usize = 1024 * 1024;
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        let writer = std::thread::spawn(move || theirs.write_all(&pattern(BYTES, 3)));
        let buffers = buffers(32, 1000);
        let mut received = Vec::new();
        for (index, chunk) in ring::receive(&ours, &buffers).enumerate() {
            received.extend_from_slice(&chunk.unwrap());
            if index % 7 == 0 {
                yield_now(); // Now and then the backlog is full.
                yield_now();
            }
        }
        assert!(received == pattern(BYTES, 3), "{}", received.len());
        writer.join().unwrap().unwrap();
    });
}

/// Keeps more chunks than there are buffers.
fn chunks_that_are_kept_stay_what_they_are(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        let buffers = buffers(4, 16);
        let mut chunks = ring::receive(&ours, &buffers);
        let mut kept: Vec<Chunk> = Vec::new();
        for byte in 0..20 {
            theirs.write_all(&[byte; 16]).unwrap();
            let mut count = 0;
            while count < 16 {
                kept.push(chunks.next().unwrap().unwrap());
                count += kept.last().map_or(0, |chunk| chunk.len());
            }
        }
        let bytes = kept.iter().flat_map(|chunk| chunk.iter().copied());
        assert!(bytes.eq((0..20).flat_map(|byte| [byte; 16])));
        // The buffers of the dropped chunks are used again.
        kept.clear();
        theirs.write_all(b"again").unwrap();
        assert_eq!(take(&mut chunks, 5), b"again");
    });
}

fn the_end_comes_once(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        let buffers = buffers(4, 16);
        theirs.write_all(b"last").unwrap();
        drop(theirs);
        let mut chunks = ring::receive(&ours, &buffers);
        assert_eq!(take(&mut chunks, 4), b"last");
        for _ in 0..3 {
            assert!(chunks.next().is_none());
        }
    });
}

fn a_reset_is_an_error(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair_with_std();
        let buffers = buffers(4, 16);
        let mut chunks = ring::receive(&ours, &buffers);
        reset(theirs);
        assert_eq!(errno(chunks.next().unwrap()), Errno::CONNRESET);
        assert!(chunks.next().is_none());
    });
}

fn a_timeout_loses_no_byte(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        let buffers = buffers(4, 16);
        let mut chunks = ring::receive(&ours, &buffers);
        assert_eq!(
            chunks.set_timeout(Some(Duration::ZERO)).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        for byte in 0..3 {
            chunks.set_timeout(Some(Duration::from_millis(2))).unwrap();
            let begin = Instant::now();
            let error = chunks.next().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert!(begin.elapsed() >= Duration::from_millis(2));
            chunks.set_timeout(None).unwrap();
            theirs.write_all(&[byte]).unwrap();
            assert_eq!(take(&mut chunks, 1), [byte]);
        }
    });
}

fn after_a_stop_others_can_read(place: Place) {
    place.run(|| {
        let (mut ours, mut theirs) = pair_with_std();
        let buffers = buffers(4, 16);
        let clone = ours.try_clone().unwrap();
        let mut chunks = ring::receive(&clone, &buffers);
        theirs.write_all(b"one").unwrap();
        assert_eq!(take(&mut chunks, 3), b"one");
        theirs.write_all(b"two").unwrap();
        for _ in 0..10 {
            yield_now(); // It may arrive meanwhile.
        }
        chunks.stop();
        let mut rest: Vec<u8> = Vec::new();
        for chunk in &mut chunks {
            rest.extend_from_slice(&chunk.unwrap());
        }
        assert!(chunks.next().is_none());
        theirs.write_all(b"three").unwrap();
        rest.resize(8, 0);
        let read = if rest[..3] == *b"two" { 3 } else { 0 };
        ours.read_exact(&mut rest[read..]).unwrap();
        assert_eq!(rest, b"twothree");
    });
}

fn a_dropped_request_receives_no_more(place: Place) {
    place.run(|| {
        let (mut ours, mut theirs) = pair_with_std();
        let clone = ours.try_clone().unwrap();
        for byte in 0..3 {
            let buffers = buffers(4, 16);
            let mut chunks = ring::receive(&clone, &buffers);
            theirs.write_all(&[byte]).unwrap();
            assert_eq!(take(&mut chunks, 1), [byte]);
            drop(chunks);
            theirs.write_all(b"x").unwrap();
            ours.read_exact(&mut [0]).unwrap();
        }
    });
}

fn echo(stream: &TcpStream, buffers: &BufferRing) -> io::Result<()> {
    let mut writer = stream;
    for chunk in ring::receive(stream, buffers) {
        writer.write_all(&chunk?)?;
    }
    stream.shutdown(net::Shutdown::Write)
}

fn few_buffers_serve_many_connections(place: Place) {
    place.run(|| {
        let buffers = buffers(4, 64);
        let pairs: Vec<_> = (0..30).map(|_| pair_with_std()).collect();
        let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let clients = std::thread::spawn(move || {
            for round in 0..10_u8 {
                for client in &theirs {
                    (&mut &*client).write_all(&[round; 100]).unwrap();
                }
                for client in &theirs {
                    let mut echoed = [0; 100];
                    (&mut &*client).read_exact(&mut echoed).unwrap();
                    assert_eq!(echoed, [round; 100]);
                }
            }
        });
        uthread::scope(|scope| {
            for stream in &ours {
                let buffers = &buffers;
                scope.spawn(move || echo(stream, buffers).unwrap());
            }
        });
        clients.join().unwrap();
    });
}

fn files_other_than_sockets_are_errors(place: Place) {
    place.run(|| {
        let file = std::fs::File::open("Cargo.toml").unwrap();
        let buffers = buffers(4, 16);
        let mut chunks = ring::receive(&file, &buffers);
        for _ in 0..2 {
            assert_eq!(errno(chunks.next().unwrap()), Errno::NOTSOCK);
        }
    });
}

fn a_non_blocking_socket_is_waited_for(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        ours.set_nonblocking(true).unwrap();
        let buffers = buffers(4, 16);
        let mut chunks = ring::receive(&ours, &buffers);
        chunks.set_timeout(Some(Duration::from_millis(2))).unwrap();
        let begin = Instant::now();
        assert_eq!(errno(chunks.next().unwrap()), Errno::AGAIN);
        assert!(begin.elapsed() >= Duration::from_millis(2));
        chunks.set_timeout(None).unwrap();
        theirs.write_all(b"x").unwrap();
        assert_eq!(take(&mut chunks, 1), b"x");
    });
}

fn sizes_that_make_no_sense_are_refused(place: Place) {
    place.run(|| {
        for (count, size) in [(0, 1), (3, 1), (4, 0), (4, usize::MAX), (u16::MAX, 1)] {
            let error = BufferRing::new(count, size).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{count} of {size}");
        }
    });
}

fn a_waiter_is_woken(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        let wait = || {
            let buffers = buffers(4, 16);
            let mut chunks = ring::receive(&ours, &buffers);
            take(&mut chunks, 4)
        };
        let bytes = place.meanwhile(wait, || theirs.write_all(b"text").unwrap());
        assert_eq!(bytes, b"text");
    });
}

fn a_chunk_outlives_its_runtime(place: Place) {
    let runtime = place.runtime();
    let (ours, mut theirs) = pair_with_std();
    theirs.write_all(b"text").unwrap();
    let chunk = runtime.run(|| {
        let buffers = buffers(4, 16);
        let chunk = ring::receive(&ours, &buffers).next().unwrap().unwrap();
        drop(buffers);
        chunk
    });
    drop(runtime);
    assert_eq!(&*chunk, b"text");
}

fn the_end_of_the_runtime_ends_the_wait(place: Place) {
    let runtime = place.runtime();
    let (ours, _theirs) = pair_with_std();
    let waits = place.spawn_waiting(&runtime, move || {
        let buffers = buffers(4, 16);
        let mut chunks = ring::receive(&ours, &buffers);
        [chunks.next(), chunks.next()].map(|next| errno(next.unwrap()))
    });
    drop(runtime);
    assert_eq!(waits.join().unwrap(), [Errno::CANCELED; 2]);
}

fn the_end_of_the_runtime_ends_what_was_leaked(place: Place) {
    let runtime = place.runtime();
    let (ours, mut theirs) = pair_with_std();
    theirs.write_all(b"text").unwrap();
    runtime.run(|| {
        let buffers = buffers(4, 16);
        let mut chunks = ring::receive(&ours, &buffers);
        assert_eq!(take(&mut chunks, 4), b"text");
        mem::forget(chunks);
        drop(buffers);
        // Into the memory of a group that seems to be gone.
        theirs.write_all(b"more").unwrap();
        yield_now();
    });
    drop(runtime);
    drop(ours);
    // The kernel has let go of the socket.
    eventually("it is closed", || {
        let mut theirs = &theirs;
        theirs.write_all(b"x").is_err() || theirs.read(&mut [0]).is_ok_and(|count| count == 0)
    });
}

fn a_cancelled_fiber_ends_its_request(place: Place) {
    let runtime = place.runtime();
    let (mut ours, mut theirs) = pair_with_std();
    let clone = ours.try_clone().unwrap();
    let waits = place.spawn_waiting(&runtime, move || {
        let buffers = buffers(4, 16);
        errno(ring::receive(&clone, &buffers).next().unwrap())
    });
    waits.cancel();
    assert_eq!(waits.join().unwrap(), Errno::CANCELED);
    runtime.run(|| {
        theirs.write_all(b"x").unwrap();
        ours.read_exact(&mut [0]).unwrap();
    });
}

fn one_request_receives_many_chunks(place: Place) {
    let mut features = uthread::runtime::diagnose().ring_features.into_iter();
    let found = features.find(|feature| feature.name == "multishot receive");
    if found.unwrap().available != Some(true) {
        lacks("multishot receive");
    }
    let runtime = place.runtime();
    let submissions = || runtime.metrics().total().submissions;
    let before = submissions();
    let begin = Instant::now();
    runtime.run(|| {
        let (ours, mut theirs) = pair_with_std();
        let during = submissions();
        let buffers = buffers(4, 16);
        let mut chunks = ring::receive(&ours, &buffers);
        for byte in 0..50 {
            theirs.write_all(&[byte]).unwrap();
            assert_eq!(take(&mut chunks, 1), [byte]);
        }
        drop(chunks);
        spawn(yield_now).join().unwrap();
        assert!(submissions() - during <= 2, "{}", submissions() - before);
    });
    assert!(begin.elapsed() < HANG);
}
