//! Reads and writes of several buffers, and of very long ones: by one request, as far as the kernel
//! goes.

use std::io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU64;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::{file_of, pattern};
use rustix::fs::Advice;
use uthread::fs::OpenOptions;

behaviours![(
    EVERYWHERE,
    [
        vectored_calls_go_through_all_buffers_at_once,
        more_buffers_than_the_kernel_takes_are_left_for_the_next_call,
        vectored_calls_of_megabytes_move_all,
        a_write_of_gigabytes_moves_what_the_kernel_takes_at_once
    ]
)];

fn vectored_calls_go_through_all_buffers_at_once(place: Place) {
    place.run(|| {
        let mut file = file_of(b"");
        let parts: [&[u8]; 4] = [b"", b"one ", b"two", b""];
        let parts = parts.map(IoSlice::new);
        assert_eq!(file.write_vectored(&parts).unwrap(), 7);
        assert_eq!((&file).write_vectored(&parts).unwrap(), 7);
        file.seek(SeekFrom::Start(1)).unwrap();
        let (mut first, mut second) = ([0; 3], [0; 9]);
        let mut buffers = [&mut first[..], &mut [], &mut second].map(IoSliceMut::new);
        assert_eq!(file.read_vectored(&mut buffers).unwrap(), 12);
        assert_eq!(buffers.each_ref().map(|buffer| buffer.len()), [3, 0, 9]);
        assert_eq!(file.read_vectored(&mut buffers).unwrap(), 1);
        assert_eq!((&first, &second), (b"oe ", b"twoone tw"));
        assert_eq!(file.read_vectored(&mut buffers_of(&mut [])).unwrap(), 0);
    });
}

fn buffers_of<'a>(buffers: &'a mut [&mut [u8]]) -> Vec<IoSliceMut<'a>> {
    buffers
        .iter_mut()
        .map(|buffer| IoSliceMut::new(buffer))
        .collect()
}

/// Catches a list that is too long for the kernel, which refuses it; `std` leaves out what is too
/// much.
fn more_buffers_than_the_kernel_takes_are_left_for_the_next_call(place: Place) {
    const TAKEN_MAX: usize = 1024;
    place.run(|| {
        let mut file = file_of(b"");
        let bytes = pattern(TAKEN_MAX + 10, 3);
        let parts: Vec<_> = bytes.chunks(1).map(IoSlice::new).collect();
        assert_eq!(file.write_vectored(&parts).unwrap(), TAKEN_MAX);
        assert_eq!(file.write_vectored(&parts[TAKEN_MAX..]).unwrap(), 10);
        file.rewind().unwrap();
        let mut read = vec![0; TAKEN_MAX + 10];
        let mut parts: Vec<_> = read.chunks_mut(1).map(IoSliceMut::new).collect();
        assert_eq!(file.read_vectored(&mut parts).unwrap(), TAKEN_MAX);
        assert_eq!(file.read_vectored(&mut parts[TAKEN_MAX..]).unwrap(), 10);
        assert!(read == bytes);
    });
}

/// Covers drivers that transfer data in memory first, and continue in the middle of a buffer.
fn vectored_calls_of_megabytes_move_all(place: Place) {
    let contents = pattern(9_000_000, 4);
    place.run(|| {
        let file = file_of(&contents);
        for advice in [Advice::DontNeed, Advice::Normal] {
            (&file).rewind().unwrap();
            file.sync_all().unwrap();
            // Every other part goes out of memory, where there is a disk to read it from again.
            for part in (0..9).step_by(2) {
                let length = NonZeroU64::new(1_000_000);
                rustix::fs::fadvise(&file, part * 1_000_000, length, advice).unwrap();
            }
            let mut read = vec![0; 10_000_000];
            let mut parts: Vec<_> = read.chunks_mut(777_777).map(IoSliceMut::new).collect();
            assert_eq!((&file).read_vectored(&mut parts).unwrap(), contents.len());
            assert!(read[..contents.len()] == contents);
        }
        let mut copy = file_of(b"");
        let parts: Vec<_> = contents.chunks(777_777).map(IoSlice::new).collect();
        assert_eq!(copy.write_vectored(&parts).unwrap(), contents.len());
        let mut read = Vec::new();
        copy.rewind().unwrap();
        copy.read_to_end(&mut read).unwrap();
        assert!(read == contents);
    });
}

/// Catches a write that goes on after the kernel has cut it, and counts beyond the 31 bits of a
/// result.
fn a_write_of_gigabytes_moves_what_the_kernel_takes_at_once(place: Place) {
    const TAKEN_MAX: usize = 0x7fff_f000;
    place.run(|| {
        // Never touched, so that it is addresses only.
        let bytes = vec![0; 3 * 1024 * 1024 * 1024];
        let mut null = OpenOptions::new().write(true).open("/dev/null").unwrap();
        assert_eq!(null.write(&bytes).unwrap(), TAKEN_MAX);
        let parts = [IoSlice::new(&bytes), IoSlice::new(&bytes)];
        assert_eq!(null.write_vectored(&parts).unwrap(), TAKEN_MAX);
        assert_eq!(null.write(&bytes[..10]).unwrap(), 10);
    });
}
