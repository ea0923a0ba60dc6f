//! Pipes and FIFOs as files: short reads, waiting, and the end of either side.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use crate::harness::child::run_alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, Gap, ON_ONE_WORKER, behaviours};
use crate::support::HOUR;
use rustix::fs::{CWD, FileType, Mode};
use rustix::io::Errno;
use tempfile::{TempDir, tempdir};
use uthread::fs::{self, File, OpenOptions};
use uthread::{spawn, timeout};

behaviours![
    (
        EVERYWHERE,
        [
            a_read_returns_what_is_there_and_nothing_at_the_end,
            calls_without_a_byte_wait_for_nothing_within_a_deadline,
            a_write_without_a_reader_is_an_error,
            more_than_a_pipe_holds_goes_through_it,
            a_fiber_and_a_thread_talk_through_pipes,
            a_pipe_is_opened_again_by_its_number,
            metadata_of_a_fifo_waits_for_nobody,
            files_that_say_they_are_empty_are_read_whole
        ]
    ),
    (ON_ONE_WORKER, [a_waiting_fiber_leaves_its_worker_to_others]),
    (
        &[Gap(
            Place::is_of_fibers,
            "a fifo opens without its other end"
        )],
        [outside_a_fifo_opens_when_its_other_end_does]
    ),
    (
        &[Gap(
            |place| !place.is_of_fibers(),
            "a fifo opens with its other end, as in std"
        )],
        [in_a_fiber_a_fifo_opens_without_its_other_end]
    ),
];

fn pipe() -> (File, File) {
    let (reader, writer) = io::pipe().unwrap();
    (OwnedFd::from(reader).into(), OwnedFd::from(writer).into())
}

fn fifo() -> (TempDir, PathBuf) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("fifo");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    (directory, path)
}

fn a_read_returns_what_is_there_and_nothing_at_the_end(place: Place) {
    place.run(|| {
        let (mut reader, mut writer) = pipe();
        let mut buffer = [0; 10];
        for text in [&b"abc"[..], b"d"] {
            writer.write_all(text).unwrap();
            assert_eq!(reader.read(&mut buffer).unwrap(), text.len());
            assert_eq!(buffer[..text.len()], *text);
        }
        writer.write_all(b"rest").unwrap();
        drop(writer);
        let mut rest = Vec::new();
        assert_eq!(reader.read_to_end(&mut rest).unwrap(), 4);
        assert_eq!(reader.read(&mut buffer).unwrap(), 0);
    });
}

/// Checks that a deadline changes nothing: the pipe is empty for the reads, and full for the
/// writes.
fn calls_without_a_byte_wait_for_nothing_within_a_deadline(place: Place) {
    place.run(|| {
        let (mut reader, mut writer) = pipe();
        let counts = timeout(HOUR, || {
            let reads = [
                reader.read(&mut []),
                reader.read_vectored(&mut []),
                reader.read_vectored(&mut [IoSliceMut::new(&mut [])]),
            ];
            let capacity = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
            writer.write_all(&vec![0; capacity]).unwrap();
            let writes = [
                writer.write(&[]),
                writer.write_vectored(&[]),
                writer.write_vectored(&[IoSlice::new(&[])]),
            ];
            reads.into_iter().chain(writes).map(Result::unwrap).sum()
        });
        assert_eq!(counts, Ok(0_usize));
    });
}

fn a_write_without_a_reader_is_an_error(place: Place) {
    run_alone(place, || {
        let (reader, mut writer) = pipe();
        drop(reader);
        assert_eq!(
            writer.write(b"x").unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
    });
}

fn a_waiting_fiber_leaves_its_worker_to_others(place: Place) {
    let text = place.run(|| {
        let (mut reader, mut writer) = pipe();
        let waiting = spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).map(|_| text)
        });
        for word in ["one ", "two ", "three"] {
            uthread::yield_now();
            assert!(!waiting.is_finished());
            writer.write_all(word.as_bytes()).unwrap();
        }
        drop(writer);
        waiting.join().unwrap().unwrap()
    });
    assert_eq!(text, "one two three");
}

fn more_than_a_pipe_holds_goes_through_it(place: Place) {
    const BYTES: usize = 1024 * 1024;
    place.run(|| {
        let (mut reader, mut writer) = pipe();
        let sender = spawn(move || {
            let bytes: Vec<u8> = (0..BYTES).map(|index| (index % 251) as u8).collect();
            writer.write_all(&bytes)
        });
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        sender.join().unwrap().unwrap();
        assert_eq!(bytes.len(), BYTES);
        assert!(
            (0..)
                .zip(bytes)
                .all(|(index, byte)| byte == (index % 251) as u8)
        );
    });
}

fn a_fiber_and_a_thread_talk_through_pipes(place: Place) {
    place.run(|| {
        let (mut reader, theirs) = pipe();
        let (from_us, mut writer) = pipe();
        let echo = std::thread::spawn(move || io::copy(&mut &from_us, &mut &theirs));
        for round in 0..100_u8 {
            writer.write_all(&[round]).unwrap();
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [round]);
        }
        drop(writer);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        assert_eq!(echo.join().unwrap().unwrap(), 100);
    });
}

fn a_pipe_is_opened_again_by_its_number(place: Place) {
    place.run(|| {
        let (reader, mut writer) = pipe();
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let mut again = File::open(&path).unwrap();
        writer.write_all(b"text").unwrap();
        let mut text = [0; 9];
        assert_eq!(again.read(&mut text).unwrap(), 4);
        assert_eq!(text[..4], *b"text");
        assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
    });
}

fn in_a_fiber_a_fifo_opens_without_its_other_end(place: Place) {
    place.run(|| {
        let (_directory, path) = fifo();
        let mut write = OpenOptions::new();
        write.write(true);
        let error = write.open(&path).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::NXIO.raw_os_error()));
        let mut reader = File::open(&path).unwrap();
        let mut writer = write.open(&path).unwrap();
        // From here on it waits as any pipe does.
        let reading = spawn(move || {
            let mut bytes = [0; 4];
            reader.read_exact(&mut bytes).map(|()| bytes)
        });
        uthread::yield_now();
        writer.write_all(b"text").unwrap();
        assert_eq!(reading.join().unwrap().unwrap(), *b"text");
    });
}

fn outside_a_fifo_opens_when_its_other_end_does(place: Place) {
    place.run(|| {
        let (_directory, path) = fifo();
        let theirs = path.clone();
        let reader = std::thread::spawn(move || fs::read(theirs));
        let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
        writer.write_all(b"text").unwrap();
        drop(writer);
        assert_eq!(reader.join().unwrap().unwrap(), b"text");
    });
}

fn metadata_of_a_fifo_waits_for_nobody(place: Place) {
    place.run(|| {
        let (_directory, path) = fifo();
        assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
    });
}

fn files_that_say_they_are_empty_are_read_whole(place: Place) {
    // The last gives all to the first read, or one number.
    for path in ["/proc/loadavg", "/proc/mounts", "/proc/sys/kernel/pid_max"] {
        place.run(|| {
            let ours = uthread::fs::read(path).unwrap();
            let theirs = std::fs::read(path).unwrap();
            // A text that changes from read to read has about the same length.
            assert!(ours.len() + 8 > theirs.len(), "{path}: {ours:?}");
        });
    }
    place.run(|| {
        let path = "/proc/sys/kernel/pid_max";
        let theirs = std::fs::read_to_string(path).unwrap();
        assert_eq!(uthread::fs::read_to_string(path).unwrap(), theirs);
    });
}
