//! Opening, reading and closing a file by one submission: the result of three calls, and nothing is
//! left behind.

use std::fs;
use std::io::{ErrorKind, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

use rustix::io::Errno;
use tempfile::tempdir;
use uthread::fs::Dir;
use uthread::ring::{self, RegisteredFile};
use uthread::thread::Cancelled;

use crate::fixtures::registered::{FILES, require};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, NO_RING, behaviours};
use crate::support::{assert_same, errno, eventually, file_of, kind, pattern};

behaviours![
    (
        EVERYWHERE,
        [
            a_file_is_read_as_far_as_there_is_room,
            errors_are_those_of_the_calls,
            special_files_are_read,
            a_file_beneath_a_directory_is_read,
            files_are_read_by_many_at_once,
            nothing_is_a_round_of_the_worker,
        ]
    ),
    (
        IN_FIBERS,
        [
            a_wait_for_bytes_ends_with_them,
            the_end_of_the_runtime_ends_the_wait,
            a_deadline_ends_the_wait,
            nothing_is_done_in_a_cancelled_fiber,
        ]
    ),
    (
        &[NO_RING],
        [
            a_file_is_read_by_one_submission,
            a_thousand_cancelled_calls_leave_no_file,
        ]
    ),
];

fn a_file_is_read_as_far_as_there_is_room(place: Place) {
    place.run(|| {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        for length in [0, 1, 4095, 4096, 100_000] {
            let bytes = pattern(length, 1);
            fs::write(&path, &bytes).unwrap();
            for room in [0, 1, 4096, 99_999, 100_000, 200_000] {
                let mut buffer = vec![7; room];
                let count = ring::read_file(&path, &mut buffer).unwrap();
                assert_eq!(count, length.min(room), "{length} into {room}");
                assert_same(&buffer[..count], &bytes[..count]);
                assert!(buffer[count..].iter().all(|byte| *byte == 7));
            }
        }
    });
}

fn errors_are_those_of_the_calls(place: Place) {
    place.run(|| {
        let directory = tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, b"text").unwrap();
        std::os::unix::fs::symlink("link", directory.path().join("link")).unwrap();
        let long = directory.path().join("x".repeat(1000));
        for path in [
            directory.path().to_owned(),
            directory.path().join("missing"),
            directory.path().join("link"),
            file.join("beyond"),
            long,
            "".into(),
        ] {
            let expected = errno(fs::read(&path));
            assert_eq!(
                errno(ring::read_file(&path, &mut [0])),
                expected,
                "{path:?}"
            );
        }
        assert_eq!(
            kind(ring::read_file("a\0b", &mut [0])),
            ErrorKind::InvalidInput
        );
        // None of it stays behind.
        let mut buffer = [0; 4];
        assert_eq!(ring::read_file(&file, &mut buffer).unwrap(), 4);
        assert_eq!(&buffer, b"text");
    });
}

fn special_files_are_read(place: Place) {
    place.run(|| {
        let mut buffer = [1; 100];
        assert_eq!(ring::read_file("/dev/null", &mut buffer).unwrap(), 0);
        assert_eq!(ring::read_file("/dev/zero", &mut buffer).unwrap(), 100);
        assert_eq!(buffer, [0; 100]);
        let version = fs::read("/proc/version").unwrap();
        let count = ring::read_file("/proc/version", &mut buffer).unwrap();
        assert_eq!(buffer[..count], version[..100.min(version.len())]);
    });
}

fn a_file_beneath_a_directory_is_read(place: Place) {
    place.run(|| {
        let outer = tempdir().unwrap();
        let inner = outer.path().join("inner");
        fs::create_dir_all(inner.join("deeper")).unwrap();
        fs::write(outer.path().join("outside"), b"secret").unwrap();
        fs::write(inner.join("file"), b"text").unwrap();
        fs::write(inner.join("deeper/file"), b"more text").unwrap();
        for (target, name) in [("file", "link"), ("../outside", "out"), ("loop", "loop")] {
            std::os::unix::fs::symlink(target, inner.join(name)).unwrap();
        }
        let directory = Dir::open(&inner).unwrap();
        let mut buffer = [0; 6];
        let mut read = |path| {
            let count = ring::read_file_beneath(&directory, path, &mut buffer)?;
            Ok(buffer[..count].to_vec())
        };
        assert_eq!(read("file").unwrap(), b"text");
        assert_eq!(read("link").unwrap(), b"text");
        assert_eq!(read("deeper/file").unwrap(), b"more t");
        let absolute = inner.join("file");
        for (path, expected) in [
            ("../outside", Errno::XDEV),
            ("out", Errno::XDEV),
            (absolute.to_str().unwrap(), Errno::XDEV),
            ("missing", Errno::NOENT),
            ("loop", Errno::LOOP),
            ("deeper", Errno::ISDIR),
        ] {
            assert_eq!(errno(read(path)), expected, "{path}");
        }
        assert_eq!(kind(read("a\0b")), ErrorKind::InvalidInput);
        // The path is resolved from the open directory, wherever that is now.
        fs::rename(&inner, outer.path().join("renamed")).unwrap();
        assert_eq!(read("file").unwrap(), b"text");
    });
}

/// Starts more reads than the ring has places for files.
fn files_are_read_by_many_at_once(place: Place) {
    const FILES: u8 = 20;
    place.run(|| {
        let directory = tempdir().unwrap();
        let path = |index: u8| directory.path().join(index.to_string());
        for index in 0..FILES {
            fs::write(path(index), pattern(500, index.into())).unwrap();
        }
        uthread::thread::scope(|scope| {
            for reader in 0..1200_u16 {
                let index = (reader % u16::from(FILES)) as u8;
                let path = path(index);
                let read = move || {
                    let mut buffer = [0; 600];
                    let count = ring::read_file(path, &mut buffer).unwrap();
                    assert_same(&buffer[..count], &pattern(500, index.into()));
                };
                // 1,200 threads take long.
                if place.is_of_fibers() || reader < 50 {
                    scope.spawn(read);
                }
            }
        });
    });
}

fn nothing_is_a_round_of_the_worker(place: Place) {
    place.run(|| (0..100).for_each(|_| ring::nop().unwrap()));
}

/// Returns a path of an empty pipe. Opening it waits for no writer.
fn path_of(reader: &PipeReader) -> String {
    format!("/proc/self/fd/{}", reader.as_raw_fd())
}

fn a_wait_for_bytes_ends_with_them(place: Place) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    place.run(|| {
        let path = path_of(&reader);
        let call = || {
            let mut buffer = [0; 100];
            let count = ring::read_file(path, &mut buffer).unwrap();
            buffer[..count].to_vec()
        };
        let bytes = place.meanwhile(call, || writer.write_all(b"text").unwrap());
        assert_eq!(bytes, b"text");
    });
}

/// Waits until the kernel has closed the file. Its last user there releases it, perhaps slightly
/// after the completion.
fn await_the_end_of_readers(writer: &PipeWriter) {
    eventually("nobody has it open", || {
        let mut writer = writer;
        let written = writer.write(b"x");
        written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe)
    });
}

fn the_end_of_the_runtime_ends_the_wait(place: Place) {
    let runtime = place.runtime();
    let (reader, writer) = std::io::pipe().unwrap();
    let path = path_of(&reader);
    let waits = place.spawn_waiting(&runtime, move || {
        let calls = [0, 1].map(|_| errno(ring::read_file(&path, &mut [0])));
        (calls, errno(ring::nop()))
    });
    drop(runtime);
    let cancelled = Errno::CANCELED;
    assert_eq!(waits.join().unwrap(), ([cancelled; 2], cancelled));
    drop(reader);
    await_the_end_of_readers(&writer);
}

fn a_deadline_ends_the_wait(place: Place) {
    place.run(|| {
        let (reader, writer) = std::io::pipe().unwrap();
        let path = path_of(&reader);
        let call = || errno(ring::read_file(path, &mut [0]));
        let late = uthread::timeout(Duration::from_millis(2), call);
        assert_eq!(late.unwrap(), Errno::TIMEDOUT);
        drop(reader);
        await_the_end_of_readers(&writer);
    });
}

fn nothing_is_done_in_a_cancelled_fiber(place: Place) {
    let runtime = place.runtime();
    let (mut silent, _writer) = uthread::io::pipe().unwrap();
    let directory = Dir::open(".").unwrap();
    let cancelled = place.spawn_waiting(&runtime, move || {
        let waited = errno(std::io::Read::read(&mut silent, &mut [0]));
        let mut buffer = [7];
        let calls = [
            ring::read_file("/dev/zero", &mut buffer).map(drop),
            ring::read_file_beneath(&directory, "Cargo.toml", &mut buffer).map(drop),
            ring::nop(),
        ];
        (waited, calls.map(errno), buffer)
    });
    cancelled.cancel();
    let refused = Errno::CANCELED;
    assert_eq!(cancelled.join().unwrap(), (refused, [refused; 3], [7]));
}

fn a_file_is_read_by_one_submission(place: Place) {
    require(place, FILES);
    let runtime = place.runtime();
    let submissions = || runtime.metrics().total().submissions;
    runtime.run(|| {
        let directory = Dir::open(".").unwrap();
        uthread::yield_now();
        let before = submissions();
        for _ in 0..50 {
            ring::read_file("Cargo.toml", &mut [0; 10]).unwrap();
            ring::read_file_beneath(&directory, "Cargo.toml", &mut [0; 10]).unwrap();
        }
        uthread::yield_now();
        let count = submissions() - before;
        assert!((99..=101).contains(&count), "{count}");
    });
}

fn a_thousand_cancelled_calls_leave_no_file(place: Place) {
    require(place, FILES);
    // One worker, so that all its places can be looked at.
    let runtime = place.runtime_of(1);
    let (reader, writer) = std::io::pipe().unwrap();
    for round in 0..10 {
        let calls = Vec::from_iter((0..100).map(|_| {
            let path = path_of(&reader);
            runtime.spawn(move || errno(ring::read_file(path, &mut [0])))
        }));
        if round % 2 == 0 {
            // All of them wait, unless they open the file still.
            let path = path_of(&reader);
            let last = place.spawn_waiting(&runtime, move || ring::read_file(path, &mut [0]));
            last.cancel();
            assert_eq!(errno(last.join().unwrap()), Errno::CANCELED);
        }
        calls.iter().for_each(|call| call.cancel());
        for call in calls {
            match call.join() {
                Ok(errno) => assert_eq!(errno, Errno::CANCELED),
                Err(payload) => assert!(
                    payload.is::<Cancelled>(),
                    "the call had not begun, but has another payload"
                ),
            }
        }
    }
    drop(reader);
    await_the_end_of_readers(&writer);
    runtime.run(|| {
        let file = file_of(b"");
        let register = |_| RegisteredFile::new(file.try_clone().unwrap());
        let files = Vec::from_iter((0..1024).map(register));
        assert!(files.iter().all(RegisteredFile::is_registered));
    });
}
