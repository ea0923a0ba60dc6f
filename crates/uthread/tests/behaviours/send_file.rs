//! `send_file`: the right bytes arrive, whatever the reader does, and a refused call is an error.

use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::{self, Shutdown};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, ON_ONE_LEAN_WORKER, behaviours};
use crate::support::{
    Flag, HANG, SOCKET_TIMEOUT, assert_same, drain, errno, file_of, join, narrow, pair_with_std,
    pattern, peer, reset,
};
use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;
use uthread::fs::File;
use uthread::net::TcpStream;

behaviours![
    (
        EVERYWHERE,
        [
            a_whole_file_arrives_byte_for_byte,
            any_part_arrives_and_no_more_than_the_file_has,
            an_empty_file_sends_nothing,
            an_offset_above_the_maximum_is_refused,
            the_position_is_neither_used_nor_moved,
            a_file_that_is_not_in_memory_arrives_too,
            a_file_with_a_hole_and_one_without_pages_arrive,
            a_sender_that_waits_leaves_its_worker,
            a_slow_reader_receives_all_bytes,
            a_peer_that_goes_away_is_an_error,
            the_write_timeout_bounds_the_time_without_progress,
            later_calls_of_the_stream_still_wait,
            a_stream_converted_to_std_blocks_as_before,
            a_nonblocking_stream_does_not_wait,
            many_senders_share_one_file
        ]
    ),
    (
        ON_ONE_LEAN_WORKER,
        [
            a_fast_reader_does_not_keep_the_worker_from_others,
            the_end_of_the_runtime_is_an_error_for_a_busy_sender
        ]
    ),
];

/// Maximum number of bytes that the sender sends in one turn.
const TURN_BYTES: u64 = 256 * 1024;
/// Length of a file that takes several turns, and does not end with a page.
const LENGTH: usize = 700_001;

/// Sends a part of a file to a peer that reads to the end. Returns how many bytes the call reports,
/// and the bytes that arrive.
fn sent(file: &File, offset: u64, length: u64) -> (u64, Vec<u8>) {
    let (ours, theirs) = pair_with_std();
    let reader = peer(move || drain(theirs));
    let count = ours.send_file(file, offset, length).unwrap();
    drop(ours);
    (count, join(reader))
}

fn a_whole_file_arrives_byte_for_byte(place: Place) {
    place.run(|| {
        let bytes = pattern(LENGTH, 1);
        let (count, received) = sent(&file_of(&bytes), 0, LENGTH as u64);
        assert_eq!(count, LENGTH as u64);
        assert_same(&received, &bytes);
    });
}

fn any_part_arrives_and_no_more_than_the_file_has(place: Place) {
    place.run(|| {
        let bytes = pattern(LENGTH, 2);
        let file = file_of(&bytes);
        let end = LENGTH as u64;
        let huge = i64::MAX as u64 - end;
        for (offset, length) in [
            (0, 0),
            (0, 1),
            (4095, 2),
            (1, TURN_BYTES),
            (5000, TURN_BYTES + 1),
            (end - 1, 1),
            (end - 1, 2),
            (3, end),
            (0, u64::MAX),
            (end, 1),
            (end + 5000, u64::MAX),
            (end, huge),
        ] {
            let start = offset.min(end) as usize;
            let stop = offset.saturating_add(length).min(end) as usize;
            let (count, received) = sent(&file, offset, length);
            assert_eq!(count, (stop - start) as u64, "{length} from {offset}");
            assert_same(&received, &bytes[start..stop]);
        }
    });
}

fn an_empty_file_sends_nothing(place: Place) {
    place.run(|| assert_eq!(sent(&file_of(b""), 0, 10), (0, Vec::new())));
}

fn an_offset_above_the_maximum_is_refused(place: Place) {
    place.run(|| {
        let (ours, _peer) = pair_with_std();
        let file = file_of(b"text");
        for offset in [u64::MAX, u64::MAX - 1, i64::MAX as u64 + 1] {
            let result = ours.send_file(&file, offset, 2);
            assert_eq!(errno(result), Errno::INVAL, "{offset}");
        }
    });
}

fn the_position_is_neither_used_nor_moved(place: Place) {
    place.run(|| {
        let mut file = file_of(b"0123456789");
        file.seek(SeekFrom::Start(5)).unwrap();
        assert_eq!(sent(&file, 2, 3), (3, b"234".to_vec()));
        assert_eq!(file.stream_position().unwrap(), 5);
    });
}

/// Removes the pages of a file from the page cache.
fn evict(file: &File) {
    file.sync_all().unwrap();
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed).unwrap();
}

/// Covers the separate path of a file that is not in the page cache.
fn a_file_that_is_not_in_memory_arrives_too(place: Place) {
    place.run(|| {
        let bytes = pattern(LENGTH, 3);
        let file = file_of(&bytes);
        evict(&file);
        let offset = 77;
        let (count, received) = sent(&file, offset as u64, u64::MAX);
        assert_eq!(count, (LENGTH - offset) as u64);
        assert_same(&received, &bytes[offset..]);
    });
}

fn a_file_with_a_hole_and_one_without_pages_arrive(place: Place) {
    place.run(|| {
        let hole_end = 400_000;
        let file = file_of(b"start");
        file.write_all_at(b"end", hole_end).unwrap();
        let (count, received) = sent(&file, 0, u64::MAX);
        assert_eq!(count, hole_end + 3);
        assert!(received.starts_with(b"start\0\0") && received.ends_with(b"\0\0end"));

        let version = File::open("/proc/version").unwrap();
        let (_, received) = sent(&version, 0, 1 << 20);
        assert_eq!(received, std::fs::read("/proc/version").unwrap());
    });
}

fn a_sender_that_waits_leaves_its_worker(place: Place) {
    place.run(|| {
        let bytes = pattern(LENGTH, 4);
        let file = file_of(&bytes);
        let (ours, theirs) = pair_with_std();
        narrow(&ours, &theirs);
        let waits = Flag::default();
        let raised = waits.clone();
        let sender = uthread::spawn(move || {
            raised.raise();
            ours.send_file(&file, 0, LENGTH as u64)
        });
        waits.wait();
        // The sender has left the worker, and cannot end before the reader reads.
        assert!(!sender.is_finished());
        let reader = peer(move || drain(theirs));
        assert_eq!(sender.join().unwrap().unwrap(), LENGTH as u64);
        assert_same(&join(reader), &bytes);
    });
}

fn a_slow_reader_receives_all_bytes(place: Place) {
    place.run(|| {
        let bytes = pattern(LENGTH, 5);
        let (ours, mut theirs) = pair_with_std();
        narrow(&ours, &theirs);
        let reader = peer(move || {
            let mut received = Vec::new();
            let mut few = [0; 1000];
            while let count @ 1.. = theirs.read(&mut few).unwrap() {
                received.extend_from_slice(&few[..count]);
                thread::yield_now();
            }
            received
        });
        ours.send_file(&file_of(&bytes), 0, u64::MAX).unwrap();
        drop(ours);
        assert_same(&join(reader), &bytes);
    });
}

fn a_fast_reader_does_not_keep_the_worker_from_others(place: Place) {
    place.run(|| {
        let file = file_of(&pattern(LENGTH, 12));
        let (ours, theirs) = pair_with_std();
        // The buffers have room for more than a turn, so that the sender does not wait before the
        // second one.
        rustix::net::sockopt::set_socket_send_buffer_size(&ours, 1 << 20).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&theirs, 1 << 20).unwrap();
        let (started, sends, ran) = (Flag::default(), Flag::default(), Flag::default());
        let other = uthread::spawn({
            let (started, sends, ran) = (started.clone(), sends.clone(), ran.clone());
            move || {
                started.raise();
                sends.wait();
                ran.raise();
            }
        });
        started.wait();
        sends.raise();
        let length = TURN_BYTES + 1;
        assert_eq!(ours.send_file(&file, 0, length).unwrap(), length);
        assert!(ran.is_raised(), "the other fiber has not run");
        other.join().unwrap();
    });
}

fn a_peer_that_goes_away_is_an_error(place: Place) {
    place.run(|| {
        let file = file_of(&pattern(4 * LENGTH, 6));
        let (ours, mut theirs) = pair_with_std();
        narrow(&ours, &theirs);
        let reader = peer(move || {
            theirs.read_exact(&mut [0; 1000]).unwrap();
            reset(theirs);
        });
        let error = ours.send_file(&file, 0, u64::MAX).unwrap_err();
        let gone = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(gone.contains(&error.kind()), "{error}");
        join(reader);

        let (ours, _theirs) = pair_with_std();
        ours.shutdown(Shutdown::Write).unwrap();
        assert_eq!(errno(ours.send_file(&file, 0, 10)), Errno::PIPE);
    });
}

fn the_write_timeout_bounds_the_time_without_progress(place: Place) {
    place.run(|| {
        let bytes = pattern(LENGTH, 7);
        let file = file_of(&bytes);
        for cold in [false, true] {
            if cold {
                evict(&file);
            }
            let (ours, theirs) = pair_with_std();
            narrow(&ours, &theirs);
            ours.set_write_timeout(Some(SOCKET_TIMEOUT)).unwrap();
            let start = Instant::now();
            let result = ours.send_file(&file, 0, LENGTH as u64);
            let elapsed = start.elapsed();
            assert_eq!(errno(result), Errno::AGAIN);
            assert!((SOCKET_TIMEOUT..HANG).contains(&elapsed), "{elapsed:?}");
            // The bytes that arrived are the start of the file.
            drop(ours);
            let received = drain(theirs);
            assert!(received.len() < LENGTH);
            assert_same(&received, &bytes[..received.len()]);
        }
    });
}

fn later_calls_of_the_stream_still_wait(place: Place) {
    place.run(|| {
        let (mut ours, mut theirs) = pair_with_std();
        narrow(&ours, &theirs);
        let file = file_of(b"file");
        assert_eq!(ours.send_file(&file, 0, 4).unwrap(), 4);
        let (sender, receiver) = mpsc::channel();
        let reader = peer(move || {
            theirs.read_exact(&mut [0; 4]).unwrap();
            receiver.recv().unwrap();
            theirs.write_all(b"!").unwrap();
            drain(theirs)
        });
        ours.set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        assert_eq!(errno(ours.read(&mut [0])), Errno::AGAIN);
        ours.set_read_timeout(None).unwrap();
        sender.send(()).unwrap();
        ours.read_exact(&mut [0]).unwrap();
        let bytes = pattern(LENGTH, 8);
        ours.write_all(&bytes).unwrap();
        assert_eq!(ours.send_file(&file, 0, 4).unwrap(), 4);
        drop(ours);
        let received = join(reader);
        assert_same(&received[..LENGTH], &bytes);
        assert_eq!(&received[LENGTH..], b"file");
    });
}

fn a_stream_converted_to_std_blocks_as_before(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        ours.send_file(&file_of(b"file"), 0, 4).unwrap();
        let std = net::TcpStream::from(ours);
        let flags = rustix::fs::fcntl_getfl(std.as_fd()).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK));
        // A way through `std` and back changes nothing.
        let ours = TcpStream::from(std);
        ours.send_file(&file_of(b" again"), 0, 6).unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        assert_eq!((&ours).read(&mut [0]).unwrap(), 0);
        drop(ours);
        let mut text = String::new();
        theirs.read_to_string(&mut text).unwrap();
        assert_eq!(text, "file again");
    });
}

fn a_nonblocking_stream_does_not_wait(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair_with_std();
        narrow(&ours, &theirs);
        ours.set_nonblocking(true).unwrap();
        let result = ours.send_file(&file_of(&pattern(LENGTH, 9)), 0, LENGTH as u64);
        assert_eq!(errno(result), Errno::AGAIN);
    });
}

fn many_senders_share_one_file(place: Place) {
    place.run(|| {
        let bytes = pattern(LENGTH, 10);
        let file = file_of(&bytes);
        uthread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let (count, received) = sent(&file, 0, LENGTH as u64);
                    assert_eq!(count, LENGTH as u64);
                    assert_same(&received, &bytes);
                });
            }
        });
    });
}

/// Catches a runtime that ends between two turns of the sender and unwinds its fiber, as if its
/// call could return no error.
fn the_end_of_the_runtime_is_an_error_for_a_busy_sender(place: Place) {
    let file = file_of(&pattern(4 * LENGTH, 11));
    let (ours, theirs) = pair_with_std();
    let runtime = place.runtime();
    let sends = Flag::default();
    let (give, take) = mpsc::channel::<uthread::Runtime>();
    let raised = sends.clone();
    // On the same worker, so that it runs between two turns of the sender.
    let ends = runtime.spawn(move || {
        sends.wait();
        let runtime = take.recv().unwrap();
        // Makes room, so that the sender does not wait.
        theirs.set_nonblocking(true).unwrap();
        while (&theirs).read(&mut [0; 64 * 1024]).is_ok() {}
        drop(runtime);
    });
    let sender = runtime.spawn(move || {
        raised.raise();
        ours.send_file(&file, 0, u64::MAX)
    });
    give.send(runtime).unwrap();
    ends.join().unwrap();
    let result = sender.join().expect("the call returns");
    assert_eq!(errno(result), Errno::CANCELED);
}
