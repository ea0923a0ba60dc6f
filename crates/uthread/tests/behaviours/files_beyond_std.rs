//! Features of files that `std` does not have: disk allocation and direct I/O.

use std::io::{self, ErrorKind, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours, lacks};
use crate::support::{errno, file_of, kind, pattern};
use rustix::io::Errno;
use tempfile::NamedTempFile;
use uthread::fs::{AlignedBuffer, Allocation, File, OpenOptions};

behaviours![(
    EVERYWHERE,
    [
        room_is_given_and_taken,
        blocks_are_taken_out_and_put_in,
        impossible_allocations_are_refused,
        aligned_memory_goes_past_the_page_cache,
        where_there_is_no_way_past_the_page_cache_it_is_said,
    ]
),];

const BLOCK: u64 = 4096;

fn contents(file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut file = file;
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

fn bytes_on_disk(file: &File) -> u64 {
    file.metadata().unwrap().blocks() * 512
}

fn room_is_given_and_taken(place: Place) {
    place.run(|| {
        let file = file_of(b"text");
        file.allocate(0, 64 * BLOCK, Allocation::Reserve).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4);
        assert!(bytes_on_disk(&file) >= 64 * BLOCK);
        file.allocate(2 * BLOCK, BLOCK, Allocation::Extend).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 3 * BLOCK);
        let mut expected = vec![0; 3 * BLOCK as usize];
        expected[..4].copy_from_slice(b"text");
        assert!(contents(&file) == expected);

        let bytes = pattern(64 * BLOCK as usize, 1);
        file.write_all_at(&bytes, 0).unwrap();
        let before = bytes_on_disk(&file);
        file.allocate(BLOCK, 32 * BLOCK, Allocation::Hole).unwrap();
        assert!(bytes_on_disk(&file) <= before - 32 * BLOCK);
        let read = contents(&file);
        assert_eq!(read.len(), bytes.len());
        assert!(read[BLOCK as usize..][..32 * BLOCK as usize] == vec![0; 32 * BLOCK as usize]);
        assert!(read[33 * BLOCK as usize..] == bytes[33 * BLOCK as usize..]);
    });
}

/// Does nothing where the file system has no such thing.
fn try_allocate(file: &File, offset: u64, bytes: u64, allocation: Allocation) -> bool {
    match file.allocate(offset, bytes, allocation) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(Errno::from_io_error(&error), Some(Errno::OPNOTSUPP));
            false
        }
    }
}

fn blocks_are_taken_out_and_put_in(place: Place) {
    place.run(|| {
        let blocks: Vec<u8> = (1..=4).flat_map(|block| [block; BLOCK as usize]).collect();
        let file = file_of(&blocks);
        let firsts = || -> Vec<u8> {
            let bytes = contents(&file);
            bytes.chunks(BLOCK as usize).map(|block| block[0]).collect()
        };
        if try_allocate(&file, BLOCK, BLOCK, Allocation::Collapse) {
            assert_eq!(firsts(), [1, 3, 4]);
            assert!(try_allocate(&file, BLOCK, 2 * BLOCK, Allocation::Insert));
            assert_eq!(firsts(), [1, 0, 0, 3, 4]);
            let part = file.allocate(1, 2, Allocation::Collapse);
            assert_eq!(errno(part), Errno::INVAL);
        }
        if try_allocate(&file, 0, BLOCK + 1, Allocation::Zero) {
            assert_eq!(firsts()[0], 0);
            assert!(try_allocate(&file, 9 * BLOCK, BLOCK, Allocation::Zero));
            assert_eq!(file.metadata().unwrap().len(), 10 * BLOCK);
        }
    });
}

fn impossible_allocations_are_refused(place: Place) {
    place.run(|| {
        let file = file_of(b"text");
        for (offset, bytes) in [(0, 0), (u64::MAX, 1), (0, u64::MAX), (1 << 63, 1)] {
            let refused = errno(file.allocate(offset, bytes, Allocation::Extend));
            assert_eq!(refused, Errno::INVAL, "{offset} {bytes}");
        }
        let beyond = file.allocate(i64::MAX as u64 - 1, 2, Allocation::Extend);
        assert_eq!(errno(beyond), Errno::FBIG);
        assert_eq!(contents(&file), b"text");
        let read_only = File::open("Cargo.toml").unwrap();
        assert_eq!(
            errno(read_only.allocate(0, 1, Allocation::Reserve)),
            Errno::BADF
        );
        let (_reader, writer) = io::pipe().unwrap();
        let pipe = File::from(OwnedFd::from(writer));
        assert_eq!(errno(pipe.allocate(0, 1, Allocation::Extend)), Errno::SPIPE);
    });
}

fn aligned_memory_goes_past_the_page_cache(place: Place) {
    let named = NamedTempFile::new().unwrap();
    if File::from(named.reopen().unwrap())
        .direct_alignment()
        .is_err()
    {
        lacks("a disk beneath the temporary files");
    }
    place.run(|| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).direct(true);
        let file = options.open(named.path()).unwrap();
        let alignment = file.direct_alignment().unwrap();
        let mut buffer = AlignedBuffer::for_file(&file, 100_000).unwrap();
        assert_eq!(
            buffer.len(),
            100_000_usize.next_multiple_of(alignment.offset())
        );
        assert!(buffer.as_ptr().addr().is_multiple_of(alignment.memory()));
        assert!(buffer.iter().all(|byte| *byte == 0));
        let bytes = pattern(buffer.len(), 2);
        buffer.copy_from_slice(&bytes);
        file.write_all_at(&buffer, 0).unwrap();
        buffer.fill(0);
        file.read_exact_at(&mut buffer, 0).unwrap();
        assert!(buffer[..] == bytes);
        assert!(std::fs::read(named.path()).unwrap() == bytes);
        // A part of a unit is refused, and so is an offset inside one.
        let refused = file.read_at(&mut buffer[..1], 0);
        assert_eq!(kind(refused), ErrorKind::InvalidInput);
        let refused = file.write_at(&buffer, 1);
        assert_eq!(kind(refused), ErrorKind::InvalidInput);
        assert_eq!(AlignedBuffer::new(alignment, 0).unwrap().len(), 0);
        for bytes in [usize::MAX, isize::MAX as usize] {
            let refused = AlignedBuffer::new(alignment, bytes);
            assert_eq!(kind(refused), ErrorKind::OutOfMemory);
        }
        // Custom flags say the same, and one does not undo the other.
        let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
        let file = options.direct(false).open(named.path()).unwrap();
        let flags = rustix::fs::fcntl_getfl(&file).unwrap();
        assert!(flags.contains(rustix::fs::OFlags::DIRECT));
    });
}

fn where_there_is_no_way_past_the_page_cache_it_is_said(place: Place) {
    place.run(|| {
        for path in ["/proc/version", "/dev/null"] {
            let file = File::open(path).unwrap();
            let error = AlignedBuffer::for_file(&file, 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{path}");
            assert!(error.to_string().contains("page cache"), "{error}");
        }
        let refused = OpenOptions::new()
            .read(true)
            .direct(true)
            .open("/proc/version");
        assert_eq!(kind(refused), ErrorKind::InvalidInput);
    });
}
