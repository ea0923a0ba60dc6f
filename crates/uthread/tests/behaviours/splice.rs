//! `splice`: the right bytes arrive between all kinds of ends, and the count is exact.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Instant;

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_ONE_WORKER, behaviours};
use crate::support::{
    Flag, HANG, SOCKET_TIMEOUT, assert_same, drain, errno, file_of, join, narrow, open_descriptors,
    pair_with_std, pattern, peer, reset, wait_until_asleep,
};
use rustix::io::Errno;
use uthread::fs::{File, OpenOptions};
use uthread::io::{PipeReader, PipeWriter, Splice, pipe, splice};
use uthread::net::{TcpStream, UnixStream};

behaviours![
    (
        EVERYWHERE,
        [
            splice_moves_all_bytes_between_all_kinds_of_ends,
            no_more_is_taken_than_the_bound_says,
            nothing_comes_of_nothing,
            positions_are_used_and_moved,
            refused_splices_are_copied,
            a_source_is_waited_for,
            a_proxy_carries_both_directions_at_once,
            a_peer_that_goes_away_is_an_error,
            timeouts_bound_the_time_without_progress,
            an_empty_nonblocking_source_is_not_waited_for,
            later_calls_on_the_sockets_still_wait,
            a_file_that_cannot_be_written_is_an_error,
            no_descriptor_is_left
        ]
    ),
    (ON_ONE_WORKER, [a_full_destination_holds_up_its_fiber_alone]),
    (IN_FIBERS, [a_splice_that_waits_is_cancelled]),
];

/// Number of bytes, above those of one turn, and no multiple of anything.
const LENGTH: usize = 700_001;

/// Starts a thread that writes these bytes into the descriptor of an end and closes it.
fn feed(end: impl Into<OwnedFd>, bytes: Vec<u8>) -> JoinHandle<()> {
    let mut end = fs::File::from(end.into());
    peer(move || end.write_all(&bytes).unwrap())
}

fn file_to_read(bytes: &[u8]) -> File {
    let mut file = file_of(bytes);
    file.rewind().unwrap();
    file
}

/// Calls `check` with a source of each kind that has these bytes.
fn for_each_source(bytes: &[u8], check: impl Fn(&str, &dyn Splice)) {
    check("file", &file_to_read(bytes));
    let (reader, writer) = pipe().unwrap();
    let feeder = feed(writer, bytes.to_vec());
    check("pipe", &reader);
    join(feeder);
    let (ours, theirs) = pair_with_std();
    let feeder = feed(theirs, bytes.to_vec());
    check("tcp", &ours);
    join(feeder);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let feeder = feed(theirs, bytes.to_vec());
    check("unix", &ours);
    join(feeder);
}

/// Calls `fill` with a destination of each kind, and compares what has arrived there then.
fn for_each_destination(expected: &[u8], fill: impl Fn(&str, &dyn Splice)) {
    let mut file = file_of(b"");
    fill("file", &file);
    file.rewind().unwrap();
    assert_same(&drain(file), expected);
    let (reader, writer) = pipe().unwrap();
    let reader = std::io::PipeReader::from(reader);
    let taker = peer(move || drain(reader));
    fill("pipe", &writer);
    drop(writer);
    assert_same(&join(taker), expected);
    let (ours, theirs) = pair_with_std();
    let taker = peer(move || drain(theirs));
    fill("tcp", &ours);
    drop(ours);
    assert_same(&join(taker), expected);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let theirs = std::os::unix::net::UnixStream::from(theirs);
    let taker = peer(move || drain(theirs));
    fill("unix", &ours);
    drop(ours);
    assert_same(&join(taker), expected);
}

fn splice_moves_all_bytes_between_all_kinds_of_ends(place: Place) {
    place.run(|| {
        let bytes = pattern(LENGTH, 1);
        for_each_destination(&bytes.repeat(4), |to, destination| {
            for_each_source(&bytes, |from, source| {
                let count = splice(source, destination, None).unwrap();
                assert_eq!(count, LENGTH as u64, "{from} to {to}");
            });
        });
    });
}

fn no_more_is_taken_than_the_bound_says(place: Place) {
    place.run(|| {
        let bytes = pattern(LENGTH, 2);
        let parts = [1, 70_000, 300_000];
        let taken: usize = parts.iter().sum();
        let mut expected = bytes[..taken].to_vec();
        expected.extend_from_slice(&bytes[taken..]);
        for_each_destination(&expected.repeat(4), |to, destination| {
            for_each_source(&bytes, |from, source| {
                for part in parts {
                    let count = splice(source, destination, Some(part as u64)).unwrap();
                    assert_eq!(count, part as u64, "{from} to {to}");
                }
                let rest = (LENGTH - taken) as u64;
                let count = splice(source, destination, Some(rest + 1)).unwrap();
                assert_eq!(count, rest, "{from} to {to}");
            });
        });
    });
}

fn nothing_comes_of_nothing(place: Place) {
    place.run(|| {
        for_each_destination(b"", |_, destination| {
            for_each_source(b"", |_, source| {
                assert_eq!(splice(source, destination, None).unwrap(), 0);
                assert_eq!(splice(source, destination, Some(5)).unwrap(), 0);
            });
            let (silent, _writer) = pipe().unwrap();
            assert_eq!(splice(&silent, destination, Some(0)).unwrap(), 0);
        });
    });
}

fn positions_are_used_and_moved(place: Place) {
    place.run(|| {
        let mut from = file_to_read(b"0123456789");
        let mut to = file_of(b"abcdef");
        from.seek(SeekFrom::Start(2)).unwrap();
        to.seek(SeekFrom::Start(1)).unwrap();
        assert_eq!(splice(&from, &to, Some(3)).unwrap(), 3);
        let positions = |from: &mut File, to: &mut File| {
            (
                from.stream_position().unwrap(),
                to.stream_position().unwrap(),
            )
        };
        assert_eq!(positions(&mut from, &mut to), (5, 4));
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert_eq!(splice(&from, &ours, Some(2)).unwrap(), 2);
        assert_eq!(splice(&theirs, &to, Some(2)).unwrap(), 2);
        assert_eq!(positions(&mut from, &mut to), (7, 6));
        let (reader, writer) = pipe().unwrap();
        assert_eq!(splice(&from, &writer, Some(1)).unwrap(), 1);
        assert_eq!(splice(&reader, &to, Some(1)).unwrap(), 1);
        assert_eq!(positions(&mut from, &mut to), (8, 7));
        to.rewind().unwrap();
        assert_eq!(drain(to), b"a234567");
    });
}

/// Covers a file that is appended to, one of `/proc`, and a device.
fn refused_splices_are_copied(place: Place) {
    place.run(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        fs::write(&path, b"old ").unwrap();
        let bytes = pattern(LENGTH, 3);
        let log = OpenOptions::new().append(true).open(&path).unwrap();
        for_each_source(&bytes, |from, source| {
            let count = splice(source, &log, None).unwrap();
            assert_eq!(count, LENGTH as u64, "{from}");
        });
        let found = fs::read(&path).unwrap();
        assert_same(&found, &[&b"old "[..], &bytes.repeat(4)].concat());

        let version = fs::read("/proc/version").unwrap();
        for_each_destination(&version, |to, destination| {
            let file = File::open("/proc/version").unwrap();
            let count = splice(&file, destination, None).unwrap();
            assert_eq!(count, version.len() as u64, "{to}");
        });
        for_each_destination(&[0; 100_000], |to, destination| {
            let zeroes = File::open("/dev/zero").unwrap();
            let count = splice(&zeroes, destination, Some(100_000)).unwrap();
            assert_eq!(count, 100_000, "{to}");
        });
    });
}

fn a_source_is_waited_for(place: Place) {
    fn check(place: Place, from: &(dyn Splice + Sync), mut theirs: impl Write, to: &File) {
        let waits = || splice(from, to, Some(4)).unwrap();
        assert_eq!(
            place.meanwhile(waits, || theirs.write_all(b"text").unwrap()),
            4
        );
        let ends = || splice(from, to, None).unwrap();
        assert_eq!(place.meanwhile(ends, || drop(theirs)), 0);
    }
    place.run(|| {
        let mut file = file_of(b"");
        let (ours, theirs) = UnixStream::pair().unwrap();
        check(place, &ours, theirs, &file);
        let (ours, theirs) = pair_with_std();
        check(place, &ours, theirs, &file);
        let (ours, theirs): (PipeReader, PipeWriter) = pipe().unwrap();
        check(place, &ours, theirs, &file);
        file.rewind().unwrap();
        assert_eq!(drain(file), b"texttexttext");
    });
}

fn a_proxy_carries_both_directions_at_once(place: Place) {
    place.run(|| {
        let ((front, client), (back, server)) = (pair_with_std(), pair_with_std());
        narrow(&front, &client);
        narrow(&back, &server);
        let speak = |stream: net::TcpStream, seed: usize| {
            let mut reader = stream.try_clone().unwrap();
            let feeder = peer(move || {
                (&stream).write_all(&pattern(LENGTH, seed)).unwrap();
                stream.shutdown(net::Shutdown::Write).unwrap();
            });
            peer(move || {
                let received = drain(&mut reader);
                feeder.join().unwrap();
                received
            })
        };
        let (client, server) = (speak(client, 5), speak(server, 6));
        uthread::scope(|scope| {
            for (from, to) in [(&front, &back), (&back, &front)] {
                scope.spawn(move || {
                    assert_eq!(splice(from, to, None).unwrap(), LENGTH as u64);
                    to.shutdown(net::Shutdown::Write).unwrap();
                });
            }
        });
        assert_same(&join(client), &pattern(LENGTH, 6));
        assert_same(&join(server), &pattern(LENGTH, 5));
    });
}

fn a_peer_that_goes_away_is_an_error(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair_with_std();
        let (other, _peer) = pair_with_std();
        let moved = place.meanwhile(|| splice(&ours, &other, None), || reset(theirs));
        assert_eq!(errno(moved), Errno::CONNRESET);

        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        for_each_source(b"text", |from, source| {
            let moved = splice(source, &ours, None);
            assert_eq!(errno(moved), Errno::PIPE, "{from}");
        });
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        for_each_source(b"text", |from, source| {
            let moved = splice(source, &writer, None);
            assert_eq!(errno(moved), Errno::PIPE, "{from}");
        });
    });
}

fn timeouts_bound_the_time_without_progress(place: Place) {
    place.run(|| {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(SOCKET_TIMEOUT)).unwrap();
        let start = Instant::now();
        assert_eq!(errno(splice(&ours, &file_of(b""), None)), Errno::AGAIN);
        assert!((SOCKET_TIMEOUT..HANG).contains(&start.elapsed()));

        let bytes = pattern(4 * LENGTH, 7);
        for_each_source(&bytes, |from, source| {
            let (ours, theirs) = pair_with_std();
            narrow(&ours, &theirs);
            ours.set_write_timeout(Some(SOCKET_TIMEOUT)).unwrap();
            let moved = splice(source, &ours, None);
            assert_eq!(errno(moved), Errno::AGAIN, "{from}");
            // The bytes that arrived are the start of the source.
            drop(ours);
            let received = drain(theirs);
            assert_same(&received, &bytes[..received.len()]);
            // Drains the source, so that its writer goes on.
            splice(
                source,
                &OpenOptions::new().write(true).open("/dev/null").unwrap(),
                None,
            )
            .unwrap();
        });
    });
}

fn an_empty_nonblocking_source_is_not_waited_for(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        for_each_destination(b"few", |_, destination| {
            assert_eq!(errno(splice(&ours, destination, None)), Errno::AGAIN);
            (&theirs).write_all(b"few").unwrap();
            assert_eq!(splice(&ours, destination, None).unwrap(), 3);
            assert_eq!(errno(splice(&ours, destination, None)), Errno::AGAIN);
        });
        theirs.flush().unwrap();
    });
}

fn later_calls_on_the_sockets_still_wait(place: Place) {
    place.run(|| {
        let ((one, mut client), (other, mut server)) = (pair_with_std(), pair_with_std());
        client.write_all(b"!").unwrap();
        assert_eq!(splice(&one, &other, Some(1)).unwrap(), 1);
        server.read_exact(&mut [0]).unwrap();
        for (stream, end) in [(&one, &mut client), (&other, &mut server)] {
            let mut stream: &TcpStream = stream;
            let write = || end.write_all(b"!").unwrap();
            let read = place.meanwhile(|| stream.read(&mut [0; 9]), write);
            assert_eq!(read.unwrap(), 1);
        }
        // The descriptor is still a blocking one for `std`.
        let std = net::TcpStream::from(one);
        let flags = rustix::fs::fcntl_getfl(&std).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    });
}

fn a_file_that_cannot_be_written_is_an_error(place: Place) {
    place.run(|| {
        let file = File::open("Cargo.toml").unwrap();
        for_each_source(b"text", |from, source| {
            let moved = splice(source, &file, None);
            assert_eq!(errno(moved), Errno::BADF, "{from}");
        });
        let directory = File::open("/").unwrap();
        assert_eq!(errno(splice(&directory, &file_of(b""), None)), Errno::ISDIR);
    });
}

fn no_descriptor_is_left(place: Place) {
    alone(|| {
        place.run(|| {
            let open = open_descriptors;
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let (to, gone) = UnixStream::pair().unwrap();
            let (null, file) = (File::create("/dev/null").unwrap(), file_of(b""));
            let before = open();
            for _ in 0..3 {
                theirs.write_all(b"four").unwrap();
                splice(&ours, &null, Some(2)).unwrap();
                splice(&ours, &file, Some(2)).unwrap();
            }
            drop(gone);
            theirs.write_all(b"four").unwrap();
            assert_eq!(errno(splice(&ours, &to, None)), Errno::PIPE);
            assert_eq!(open(), before - 1);
        });
    });
}

fn a_full_destination_holds_up_its_fiber_alone(place: Place) {
    place.run(|| {
        // Far more than the buffers take, but not much: with Linux 6.1, TCP waits 200 ms each time
        // that they were full.
        for_each_source(&pattern(LENGTH / 2, 8), |from, source| {
            let (ours, theirs) = pair_with_std();
            narrow(&ours, &theirs);
            let over = Flag::default();
            let ends = over.clone();
            let other = uthread::spawn(move || {
                // The only worker, which is free while the other fiber waits; then all goes on.
                (0..100).for_each(|_| uthread::yield_now());
                let taker = peer(move || drain(theirs).len());
                ends.raise();
                taker
            });
            let count = splice(source, &ours, None).unwrap();
            assert!(over.is_raised(), "{from}");
            drop(ours);
            assert_eq!(join(other.join().unwrap()) as u64, count);
        });
    });
}

fn a_splice_that_waits_is_cancelled(place: Place) {
    type Wait = Box<dyn FnOnce() -> std::io::Result<u64> + Send>;
    let (source, _peer) = UnixStream::pair().unwrap();
    let (empty_pipe, _writer) = pipe().unwrap();
    let (destination, _client) = pair_with_std();
    let (to, _reader) = UnixStream::pair().unwrap();
    let (empty, file) = (file_of(b""), file_to_read(&pattern(4 * LENGTH, 9)));
    let waits: [Wait; 3] = [
        Box::new(move || splice(&source, &empty, None)),
        Box::new(move || splice(&empty_pipe, &destination, None)),
        Box::new(move || splice(&file, &to, None)),
    ];
    for wait in waits {
        let runtime = place.runtime();
        let (sender, thread) = mpsc::channel();
        let fiber = runtime.spawn(move || {
            sender.send(rustix::thread::gettid()).unwrap();
            wait()
        });
        wait_until_asleep(thread.recv().unwrap());
        drop(runtime);
        let moved = fiber.join().expect("an error, no unwinding");
        assert_eq!(errno(moved), Errno::CANCELED);
    }
}
