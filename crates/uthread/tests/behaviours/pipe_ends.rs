//! The ends of `io::pipe`: waiting, the end of either side, and conversions.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Stdio;

use crate::harness::child::run_alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::{assert_same, errno, pattern};
use rustix::io::Errno;
use uthread::io::{self, BufRead, BufReader, BufWriter, PipeReader, PipeWriter, Read, Write, pipe};
use uthread::spawn;

behaviours![
    (
        EVERYWHERE,
        [
            opening_to_read_waits_for_a_writer,
            opening_to_write_waits_for_a_reader,
            a_pipe_passes_more_bytes_than_its_buffer_holds,
            pipes_end_when_all_writers_are_gone,
            writing_without_a_reader_is_an_error,
            adapters_of_std_work_on_it,
            several_buffers_go_in_one_piece,
            pipes_are_converted_from_and_to_other_types
        ]
    ),
    (IN_FIBERS, [a_wait_at_either_end_ends_with_the_runtime]),
];

fn opening_to_read_waits_for_a_writer(place: Place) {
    place.run(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        let mut byte = [0];
        let event = || writer.write_all(b"x").unwrap();
        place
            .meanwhile(|| reader.read_exact(&mut byte), event)
            .unwrap();
        assert_eq!(byte, *b"x");
    });
}

/// Writes until there is no room.
fn fill(writer: &PipeWriter) -> usize {
    rustix::io::ioctl_fionbio(writer, true).unwrap();
    let mut count = 0;
    while let Ok(more) = rustix::io::write(writer, &[0; 4096]) {
        count += more;
    }
    rustix::io::ioctl_fionbio(writer, false).unwrap();
    count
}

fn opening_to_write_waits_for_a_reader(place: Place) {
    place.run(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        let mut filled = vec![0; fill(&writer)];
        let event = || reader.read_exact(&mut filled).unwrap();
        place.meanwhile(|| writer.write_all(b"x"), event).unwrap();
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
    });
}

fn a_pipe_passes_more_bytes_than_its_buffer_holds(place: Place) {
    place.run(|| {
        let bytes = pattern(1_000_000, 1);
        let (mut reader, mut writer) = pipe().unwrap();
        let sent = bytes.clone();
        let sender = spawn(move || writer.write_all(&sent));
        let mut received = Vec::new();
        reader.read_to_end(&mut received).unwrap();
        sender.join().unwrap().unwrap();
        assert_same(&received, &bytes);
    });
}

fn pipes_end_when_all_writers_are_gone(place: Place) {
    place.run(|| {
        let (mut reader, writer) = pipe().unwrap();
        let other = writer.try_clone().unwrap();
        drop(writer);
        let mut bytes = Vec::new();
        let read = || reader.try_clone().unwrap().read_to_end(&mut bytes);
        assert_eq!(place.meanwhile(read, || drop(other)).unwrap(), 0);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    });
}

fn writing_without_a_reader_is_an_error(place: Place) {
    run_alone(place, || {
        let (reader, mut writer) = pipe().unwrap();
        let other = reader.try_clone().unwrap();
        drop(reader);
        writer.write_all(b"x").unwrap();
        drop(other);
        assert_eq!(errno(writer.write(b"x")), Errno::PIPE);
    });
}

fn adapters_of_std_work_on_it(place: Place) {
    place.run(|| {
        let (reader, writer) = pipe().unwrap();
        let sender = spawn(move || {
            let mut writer = BufWriter::new(writer);
            (0..10_000).try_for_each(|number| writeln!(writer, "{number}"))?;
            writer.flush()
        });
        let numbers = BufReader::new(&reader)
            .lines()
            .map(|line| line.unwrap().parse::<i32>().unwrap());
        assert!(numbers.eq(0..10_000));
        sender.join().unwrap().unwrap();
        let (from, mut to) = pipe().unwrap();
        to.write_all(b"copied").unwrap();
        drop(to);
        let mut copy = Vec::new();
        assert_eq!(io::copy(&mut &from, &mut copy).unwrap(), 6);
    });
}

fn several_buffers_go_in_one_piece(place: Place) {
    place.run(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        let pieces = [&b"one "[..], b"", b"two"].map(io::IoSlice::new);
        assert_eq!(writer.write_vectored(&pieces).unwrap(), 7);
        let (mut first, mut rest) = ([0; 2], [0; 10]);
        let mut buffers = [&mut first[..], &mut rest[..]].map(io::IoSliceMut::new);
        assert_eq!(reader.read_vectored(&mut buffers).unwrap(), 7);
        assert_eq!((&first, &rest[..5]), (b"on", &b"e two"[..]));
        let mut buffers = [&mut first[..], &mut rest[..]].map(io::IoSliceMut::new);
        let read = || reader.read_vectored(&mut buffers);
        let count = place.meanwhile(read, || writer.write_all(b"abc").unwrap());
        assert_eq!(count.unwrap(), 3);
    });
}

fn pipes_are_converted_from_and_to_other_types(place: Place) {
    place.run(|| {
        let (reader, writer) = std::io::pipe().unwrap();
        let numbers = (reader.as_raw_fd(), writer.as_raw_fd());
        let (reader, writer) = (PipeReader::from(reader), PipeWriter::from(writer));
        assert_eq!((reader.as_raw_fd(), writer.as_raw_fd()), numbers);
        let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(writer));
        let (mut reader, writer) = (PipeReader::from(reader), PipeWriter::from(writer));
        assert_eq!(reader.as_fd().as_raw_fd(), numbers.0);
        let mut writer = std::io::PipeWriter::from(writer);
        writer.write_all(b"text").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        let _ = Stdio::from(reader);
    });
}

fn a_wait_at_either_end_ends_with_the_runtime(place: Place) {
    let (reader, writer) = pipe().unwrap();
    let (kept, mut full) = pipe().unwrap();
    fill(&full);
    let runtime = place.runtime_of(1);
    let reading = place.spawn_waiting(&runtime, move || (&reader).read(&mut [0]));
    let writing = place.spawn_waiting(&runtime, move || full.write(b"x"));
    drop(runtime);
    assert_eq!(errno(reading.join().unwrap()), Errno::CANCELED);
    assert_eq!(errno(writing.join().unwrap()), Errno::CANCELED);
    drop((writer, kept));
}
