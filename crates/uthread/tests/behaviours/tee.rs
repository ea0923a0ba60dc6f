//! `tee`: two readers get the same bytes, and none is lost.

use std::io::{Read, Write};

use rustix::io::Errno;
use uthread::io::{PipeReader, PipeWriter, pipe, tee};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::{assert_same, drain, errno, join, pattern, peer};

behaviours![
    (
        EVERYWHERE,
        [
            the_bytes_are_in_both_pipes,
            all_that_passes_is_given_to_another_pipe,
            ends_that_cannot_are_errors,
            tee_waits_for_bytes_and_for_room,
        ]
    ),
    (IN_FIBERS, [a_tee_that_waits_is_cancelled]),
];

fn the_bytes_are_in_both_pipes(place: Place) {
    place.run(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        let (mut other, logger) = pipe().unwrap();
        writer.write_all(b"text").unwrap();
        assert_eq!(tee(&reader, &logger, 0).unwrap(), 0);
        assert_eq!(tee(&reader, &logger, 3).unwrap(), 3);
        assert_eq!(tee(&reader, &logger, usize::MAX).unwrap(), 4);
        drop((writer, logger));
        let mut text = String::new();
        other.read_to_string(&mut text).unwrap();
        assert_eq!(text, "textext");
        text.clear();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        let (_other, logger) = pipe().unwrap();
        assert_eq!(tee(&reader, &logger, 5).unwrap(), 0);
    });
}

/// Passes more than both pipes hold.
fn all_that_passes_is_given_to_another_pipe(place: Place) {
    const LENGTH: usize = 500_001;
    place.run(|| {
        let (mut reader, writer) = pipe().unwrap();
        let (other, logger) = pipe().unwrap();
        let mut writer = std::io::PipeWriter::from(writer);
        let source = peer(move || writer.write_all(&pattern(LENGTH, 1)).unwrap());
        let other = std::io::PipeReader::from(other);
        let log = peer(move || drain(other));
        let mut passed = Vec::new();
        loop {
            let count = tee(&reader, &logger, 10_000).unwrap();
            if count == 0 {
                break;
            }
            let start = passed.len();
            passed.resize(start + count, 0);
            reader.read_exact(&mut passed[start..]).unwrap();
        }
        drop(logger);
        join(source);
        assert_same(&passed, &pattern(LENGTH, 1));
        assert_same(&join(log), &pattern(LENGTH, 1));
    });
}

fn ends_that_cannot_are_errors(place: Place) {
    place.run(|| {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"text").unwrap();
        assert_eq!(errno(tee(&reader, &writer, 1)), Errno::INVAL);
        let (other, logger) = pipe().unwrap();
        drop(other);
        assert_eq!(errno(tee(&reader, &logger, 1)), Errno::PIPE);
    });
}

/// Returns a pipe that holds no more.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    let size = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
    writer.write_all(&vec![0; size]).unwrap();
    (reader, writer)
}

fn tee_waits_for_bytes_and_for_room(place: Place) {
    place.run(|| {
        let (reader, mut writer) = pipe().unwrap();
        let (_other, logger) = pipe().unwrap();
        let call = || tee(&reader, &logger, 9).unwrap();
        let count = place.meanwhile(call, || writer.write_all(b"text").unwrap());
        assert_eq!(count, 4);
        let (mut other, logger) = full_pipe();
        let call = || tee(&reader, &logger, 9).unwrap();
        let count = place.meanwhile(call, || other.read_exact(&mut [0; 8192]).unwrap());
        assert_eq!(count, 4);
    });
}

fn a_tee_that_waits_is_cancelled(place: Place) {
    let runtime = place.runtime();
    let (reader, writer) = pipe().unwrap();
    let (other, logger) = pipe().unwrap();
    let waits = place.spawn_waiting(&runtime, move || {
        [0, 1].map(|_| errno(tee(&reader, &logger, 1)))
    });
    drop(runtime);
    assert_eq!(waits.join().unwrap(), [Errno::CANCELED; 2]);
    drop((writer, other));
}
