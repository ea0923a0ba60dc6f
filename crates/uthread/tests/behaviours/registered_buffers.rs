//! Registered memory: the same results as in any other, in every place, and none is left.

use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use uthread::fs::{File, OpenOptions};
use uthread::io::pipe;
use uthread::ring::RegisteredBuffer;

use crate::fixtures::registered::{BUFFERS, has, require};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, NO_RING, ON_SEVERAL_WORKERS, behaviours, lacks};
use crate::support::{assert_same, errno, file_of, pattern};

behaviours![
    (
        EVERYWHERE,
        [
            a_registered_buffer_is_read_into_and_written_from,
            parts_of_a_registered_buffer_are_as_good,
            pipes_and_special_files_fill_a_registered_buffer,
            a_registered_buffer_goes_past_the_page_cache,
            a_registered_buffer_has_any_size,
        ]
    ),
    (
        IN_FIBERS,
        [
            buffers_beyond_the_size_of_the_table_work_unregistered,
            a_registered_buffer_outlives_its_runtime,
            the_end_of_the_runtime_ends_a_read_into_a_registered_buffer,
        ]
    ),
    (
        ON_SEVERAL_WORKERS,
        [a_registered_buffer_goes_to_fibers_of_other_workers]
    ),
    (
        &[NO_RING],
        [
            a_buffer_is_registered_on_a_ring,
            the_places_of_buffers_are_used_again,
        ]
    ),
];

fn buffer(bytes: usize) -> RegisteredBuffer {
    RegisteredBuffer::new(bytes).unwrap()
}

fn a_registered_buffer_is_read_into_and_written_from(place: Place) {
    place.run(|| {
        let bytes = pattern(100_000, 1);
        let mut file = file_of(b"");
        let mut source = buffer(bytes.len());
        assert!(source.iter().all(|byte| *byte == 0));
        source.copy_from_slice(&bytes);
        file.write_all(&source).unwrap();
        file.write_all_at(&source, 100_000).unwrap();
        file.rewind().unwrap();
        let mut target = buffer(150_000);
        file.read_exact(&mut target).unwrap();
        assert_same(&target[..100_000], &bytes);
        assert_same(&target[100_000..], &bytes[..50_000]);
        assert_eq!(file.stream_position().unwrap(), 150_000);
        assert_eq!(file.read(&mut target).unwrap(), 50_000);
        assert_same(&target[..50_000], &bytes[50_000..]);
        assert_eq!(file.read(&mut target).unwrap(), 0);
        file.seek(SeekFrom::Start(199_999)).unwrap();
        assert_eq!(file.read(&mut target[5..9]).unwrap(), 1);
        assert_eq!(target[5], bytes[99_999]);
    });
}

/// Covers parts at the beginning, at the end and across pages, and checks that what lies around
/// stays.
fn parts_of_a_registered_buffer_are_as_good(place: Place) {
    const LENGTH: usize = 3 * 4096 + 10;
    place.run(|| {
        let bytes = pattern(LENGTH, 2);
        let file = file_of(&bytes);
        let mut buffer = buffer(LENGTH);
        let ends = [0, 1, 4095, 4096, 4097, 8192, LENGTH - 1, LENGTH];
        for start in ends {
            for end in ends.into_iter().filter(|end| *end >= start) {
                buffer.fill(7);
                let count = file.read_at(&mut buffer[start..end], 0).unwrap();
                assert_eq!(count, end - start);
                assert_same(&buffer[start..end], &bytes[..count]);
                let mut around = buffer[..start].iter().chain(&buffer[end..]);
                assert!(around.all(|byte| *byte == 7), "{start}..{end}");
            }
        }
    });
}

fn pipes_and_special_files_fill_a_registered_buffer(place: Place) {
    place.run(|| {
        let mut buffer = buffer(10_000);
        let (mut reader, mut writer) = pipe().unwrap();
        buffer[..4].copy_from_slice(b"text");
        writer.write_all(&buffer[..4]).unwrap();
        buffer.fill(0);
        assert_eq!(reader.read(&mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"text");
        for path in [
            "/proc/self/status",
            "/proc/version",
            "/sys/kernel/mm/transparent_hugepage/enabled",
        ] {
            let Ok(expected) = fs::read(path) else {
                continue;
            };
            let count = File::open(path).unwrap().read(&mut buffer).unwrap();
            assert_eq!(buffer[..10], expected[..10], "{path}");
            assert!(count >= 10);
        }
        let zeroes = File::open("/dev/zero").unwrap();
        buffer.fill(1);
        zeroes.read_exact_at(&mut buffer, 0).unwrap();
        assert!(buffer.iter().all(|byte| *byte == 0));
        let directory = File::open("/").unwrap();
        assert_eq!(
            errno(directory.read_at(&mut buffer, 0)),
            rustix::io::Errno::ISDIR
        );
    });
}

fn a_registered_buffer_goes_past_the_page_cache(place: Place) {
    place.run(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).direct(true);
        let Ok(file) = options.open(&path) else {
            lacks("a file system with O_DIRECT");
        };
        let mut buffer = buffer(1 << 20);
        let bytes = pattern(1 << 20, 3);
        buffer.copy_from_slice(&bytes);
        file.write_all_at(&buffer, 0).unwrap();
        buffer.fill(0);
        file.read_exact_at(&mut buffer, 0).unwrap();
        assert_same(&buffer, &bytes);
        assert_same(&fs::read(path).unwrap(), &bytes);
    });
}

fn a_registered_buffer_has_any_size(place: Place) {
    place.run(|| {
        let file = file_of(b"text");
        for bytes in [0, 1, 2, 4096, 4097, 3 << 20] {
            let mut buffer = buffer(bytes);
            assert_eq!(buffer.len(), bytes);
            assert!(buffer.as_ptr().addr().is_multiple_of(4096));
            assert_eq!(file.read_at(&mut buffer, 0).unwrap(), bytes.min(4));
            assert_eq!(buffer[..bytes.min(4)], b"text"[..bytes.min(4)]);
        }
        let error = RegisteredBuffer::new(usize::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(RegisteredBuffer::new(usize::MAX / 2).is_err());
    });
}

fn buffers_beyond_the_size_of_the_table_work_unregistered(place: Place) {
    let expected = if has(place, BUFFERS) { 256 } else { 0 };
    place.run(|| {
        let file = file_of(b"text");
        let mut buffers = Vec::from_iter((0..300).map(|_| buffer(4)));
        let registered = buffers
            .iter()
            .filter(|buffer| buffer.is_registered())
            .count();
        assert_eq!(registered, expected);
        for buffer in &mut buffers {
            file.read_exact_at(buffer, 0).unwrap();
            assert_eq!(**buffer, *b"text");
        }
    });
}

fn a_registered_buffer_outlives_its_runtime(place: Place) {
    let runtime = place.runtime();
    let mut buffer = runtime.run(|| buffer(8));
    drop(runtime);
    assert_eq!(buffer.is_registered(), has(place, BUFFERS));
    buffer[..4].copy_from_slice(b"text");
    let file = file_of(b"read");
    file.read_exact_at(&mut buffer[4..], 0).unwrap();
    assert_eq!(*buffer, *b"textread");
    // A fiber of another ring can read into the buffer as well.
    place.run(|| file.read_exact_at(&mut buffer[..4], 0).unwrap());
    assert_eq!(*buffer, *b"readread");
}

fn the_end_of_the_runtime_ends_a_read_into_a_registered_buffer(place: Place) {
    let runtime = place.runtime();
    let (mut reader, mut writer) = pipe().unwrap();
    let waits = place.spawn_waiting(&runtime, move || {
        let mut buffer = buffer(100);
        let error = errno(reader.read(&mut buffer));
        (error, buffer, reader)
    });
    drop(runtime);
    let (error, buffer, _reader) = waits.join().unwrap();
    assert_eq!(error, rustix::io::Errno::CANCELED);
    // Nobody reads into it any more.
    writer.write_all(b"text").unwrap();
    assert!(buffer.iter().all(|byte| *byte == 0));
}

/// Creates each buffer in one fiber, and uses and drops it in another.
fn a_registered_buffer_goes_to_fibers_of_other_workers(place: Place) {
    place.run(|| {
        let file = file_of(b"text");
        for _ in 0..400 {
            let mut buffer = buffer(4);
            let file = &file;
            uthread::scope(|scope| {
                scope.spawn(move || {
                    file.read_exact_at(&mut buffer, 0).unwrap();
                    assert_eq!(*buffer, *b"text");
                });
                uthread::yield_now();
            });
        }
    });
}

fn a_buffer_is_registered_on_a_ring(place: Place) {
    require(place, BUFFERS);
    place.run(|| assert!(buffer(4096).is_registered()));
}

fn the_places_of_buffers_are_used_again(place: Place) {
    require(place, BUFFERS);
    place.run(|| {
        for _ in 0..20 {
            let buffers = Vec::from_iter((0..100).map(|_| buffer(4)));
            assert!(buffers.iter().all(RegisteredBuffer::is_registered));
            // Dropped by a thread.
            std::thread::spawn(move || drop(buffers)).join().unwrap();
        }
    });
}
