//! Files at the limits: of the file system, of the process, of numbers.

use std::io::{self, ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::fixtures::mounted::Mounted;
use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours, lacks};
use crate::support::errno;
use crate::support::signals::ignore_long_files;
use crate::support::users::{become_ordinary_user, forbid_threads};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::tempdir;
use uthread::fs::{self, File, OpenOptions};
use uthread::ring;

behaviours![(
    EVERYWHERE,
    [
        a_file_longer_than_32_bits_count_is_read_and_written,
        holes_read_as_zeroes_and_take_no_room,
        appending_ignores_the_offset,
        beyond_the_limit_of_the_process_writes_are_short_and_then_refused,
        on_a_full_file_system_writes_are_short_and_then_refused,
        without_descriptors_only_what_needs_one_is_refused,
        without_threads_files_are_opened_written_and_read,
        files_of_the_kernel_are_read_in_pieces_and_whole,
        the_position_moves_also_without_the_page_cache
    ]
)];

fn a_file_longer_than_32_bits_count_is_read_and_written(place: Place) {
    const FAR: u64 = (1 << 32) + 5;
    place.run(|| {
        let mut file = File::from(tempfile::tempfile().unwrap());
        file.write_all_at(b"far", FAR).unwrap();
        assert_eq!(file.metadata().unwrap().len(), FAR + 3);
        assert_eq!(file.seek(SeekFrom::Start(FAR - 2)).unwrap(), FAR - 2);
        let mut bytes = [1; 5];
        file.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, *b"\0\0far");
        file.write_all(b"ther").unwrap();
        assert_eq!(file.stream_position().unwrap(), FAR + 7);
        file.set_len(FAR + 2).unwrap();
        file.seek(SeekFrom::End(-2)).unwrap();
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"fa");
        assert_eq!(file.read_at(&mut bytes, FAR).unwrap(), 2);
        // Nothing has come to stand where the low bits of an offset are.
        assert_eq!(file.read_at(&mut bytes, 5).unwrap(), 5);
        assert_eq!(bytes, [0; 5]);
    });
}

fn holes_read_as_zeroes_and_take_no_room(place: Place) {
    place.run(|| {
        let mut file = File::from(tempfile::tempfile().unwrap());
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"island", 500_000).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 1 << 20);
        let land: Vec<u8> = bytes.into_iter().filter(|byte| *byte != 0).collect();
        assert_eq!(land, b"island");
        let blocks = file.metadata().unwrap().blocks();
        assert!(blocks * 512 < 1 << 18, "{blocks}");
    });
}

/// Checks what `std` documents: the kernel ignores the offset of a write to a file opened for
/// appending, contrary to POSIX.
fn appending_ignores_the_offset(place: Place) {
    place.run(|| {
        let directory = tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "one ").unwrap();
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).open(&path).unwrap();
        file.write_all_at(b"two ", 1).unwrap();
        file.rewind().unwrap();
        file.write_all(b"three").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one two three");
        let mut word = [0; 3];
        file.read_exact_at(&mut word, 4).unwrap();
        assert_eq!(word, *b"two");
    });
}

/// Runs in a process of its own, because the limit is the process's, and so is what becomes of the
/// signal.
fn beyond_the_limit_of_the_process_writes_are_short_and_then_refused(place: Place) {
    const LIMIT: u64 = 10_000;
    alone(|| {
        let limit = getrlimit(Resource::Fsize);
        let current = Some(LIMIT);
        ignore_long_files();
        // The harness's own output is a pipe, to which no limit applies.
        setrlimit(Resource::Fsize, Rlimit { current, ..limit }).unwrap();
        place.run(|| {
            for how in ["written", "vectored", "at an offset"] {
                let file = File::from(tempfile::tempfile().unwrap());
                let bytes = [7; 4_096];
                let write = |at: u64| match how {
                    "written" => (&file).write(&bytes),
                    "vectored" => {
                        (&file).write_vectored(&[io::IoSlice::new(&bytes), io::IoSlice::new(b"")])
                    }
                    _ => file.write_at(&bytes, at),
                };
                assert_eq!(write(0).unwrap(), 4_096);
                assert_eq!(write(4_096).unwrap(), 4_096);
                assert_eq!(write(8_192).unwrap() as u64, LIMIT - 8_192, "{how}");
                assert_eq!(errno(write(LIMIT)), Errno::FBIG, "{how}");
                assert_eq!(errno(file.set_len(LIMIT + 1)), Errno::FBIG);
                file.set_len(LIMIT).unwrap();
            }
            let directory = tempdir().unwrap();
            let path = directory.path().join("file");
            let error = fs::write(&path, [0; LIMIT as usize + 1]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FileTooLarge);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), LIMIT);
        });
    });
}

fn on_a_full_file_system_writes_are_short_and_then_refused(place: Place) {
    const BYTES: usize = 64 * 1024;
    let small = Mounted::new("tmpfs", c"size=64k,nr_inodes=10");
    let at = |name: &str| small.path().join(name);
    place.run(|| {
        let bytes = vec![1; BYTES + 1];
        let mut file = File::create(at("file")).unwrap();
        assert_eq!(file.write(&bytes).unwrap(), BYTES);
        assert_eq!(errno(file.write(b"x")), Errno::NOSPC);
        let error = fs::copy(at("file"), at("copy")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(errno(fs::write(at("other"), b"x")), Errno::NOSPC);
        assert_eq!(std::fs::metadata(at("other")).unwrap().len(), 0);
        let twice = 2 * BYTES as u64;
        let refused = file.allocate(0, twice, fs::Allocation::Extend);
        assert_eq!(errno(refused), Errno::NOSPC);
        // In memory there is nothing past the page cache, though the kernel permits to ask for it.
        let mut direct = OpenOptions::new();
        if let Ok(direct) = direct.read(true).direct(true).open(at("file")) {
            let error = direct.direct_alignment().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert_eq!(direct.read_at(&mut [0; 5], 3).unwrap(), 5);
        }
        file.set_len(0).unwrap();
        fs::write(at("other"), b"x").unwrap();
        let made = (0..10).map(|index| fs::create_dir(at(&index.to_string())));
        assert_eq!(errno(made.collect::<io::Result<()>>()), Errno::NOSPC);
    });
}

fn without_descriptors_only_what_needs_one_is_refused(place: Place) {
    alone(|| {
        let directory = tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        place.run(|| {
            let file = File::options().write(true).open(at("file")).unwrap();
            fs::metadata(at("file")).unwrap(); // The pool's first thread may need descriptors.
            file.set_len(3).unwrap();
            let mut taken = take_all_descriptors();
            let takes_one: [&dyn Fn() -> io::Result<()>; 6] = [
                &|| File::open(at("file")).map(drop),
                &|| File::create(at("new")).map(drop),
                &|| file.try_clone().map(drop),
                &|| fs::read(at("file")).map(drop),
                &|| fs::read_dir(directory.path()).map(drop),
                &|| fs::copy(at("file"), at("new")).map(drop),
            ];
            for call in takes_one {
                // The monitor may give back the one by which it has looked at a thread.
                let refused = std::iter::repeat_with(|| {
                    taken.extend(take_all_descriptors());
                    call()
                });
                let mut refused = refused.take(DESCRIPTORS_MAX).filter(Result::is_err);
                assert_eq!(errno(refused.next().expect("a refusal")), Errno::MFILE);
            }
            let done = [
                fs::metadata(at("file")).map(|found| assert_eq!(found.len(), 3)),
                fs::symlink_metadata(at("file")).map(drop),
                fs::exists(at("file")).map(|exists| assert!(exists)),
                file.set_len(2),
                file.metadata().map(drop),
                file.lock(),
                fs::rename(at("file"), at("renamed")),
                fs::hard_link(at("renamed"), at("linked")),
                fs::create_dir_all(at("some/directory")),
                fs::remove_file(at("linked")),
            ];
            for result in done {
                result.unwrap();
            }
        });
    });
}

/// Catches requests that fail as the kernel can start no thread for them, and cancels them.
fn without_threads_files_are_opened_written_and_read(place: Place) {
    alone(|| {
        become_ordinary_user();
        let directory = tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        place.run(|| {
            forbid_threads();
            let file = File::create_new(at("file")).unwrap();
            (&file).write_all(b"te").unwrap();
            file.write_all_at(b"xt", 2).unwrap();
            file.sync_all().unwrap();
            fs::copy(at("file"), at("copy")).unwrap();
            let mut appended = OpenOptions::new().append(true).open(at("copy")).unwrap();
            let parts = [b"and ", b"more"].map(|part| IoSlice::new(part));
            assert_eq!(appended.write_vectored(&parts).unwrap(), 8);
            assert_eq!(fs::read(at("copy")).unwrap(), b"textand more");
            // Not found without waiting.
            let mut name = [0; 64];
            let length = ring::read_file("/proc/self/comm", &mut name).unwrap();
            assert!(name[..length].ends_with(b"\n"));
        });
    });
}

/// The limit on descriptors while all are taken.
const DESCRIPTORS_MAX: usize = 100;

fn take_all_descriptors() -> Vec<std::fs::File> {
    let current = Some(DESCRIPTORS_MAX as u64);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current,
            maximum: current,
        },
    )
    .unwrap();
    let files = std::iter::repeat_with(|| std::fs::File::open("/dev/null"));
    files.map_while(Result::ok).collect()
}

/// Covers requests that the ring completes later, when it leaves the position to the caller.
fn the_position_moves_also_without_the_page_cache(place: Place) {
    const BLOCK: usize = 4096;
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, "").unwrap();
    let direct = OFlags::DIRECT.bits().cast_signed();
    let mut options = std::fs::OpenOptions::new();
    if options
        .read(true)
        .custom_flags(direct)
        .open(&path)
        .is_err_and(|error| error.kind() == ErrorKind::InvalidInput)
    {
        lacks("a file system that does without the page cache");
    }
    place.run(|| {
        let blocks: Vec<u8> = (0..10 * BLOCK).map(|index| (index / BLOCK) as u8).collect();
        std::fs::write(&path, &blocks).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
        let mut options = OpenOptions::new();
        options.custom_flags(direct);
        let mut file = options.read(true).write(true).open(&path).unwrap();
        let mut memory = [0; 3 * BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK);
        let buffer = &mut memory[start..][..2 * BLOCK];
        for pair in blocks.chunks(2 * BLOCK) {
            assert_eq!(file.read(buffer).unwrap(), pair.len());
            assert!(buffer == pair);
        }
        assert_eq!(file.read(buffer).unwrap(), 0);
        file.seek(SeekFrom::Start(2 * BLOCK as u64)).unwrap();
        for byte in [20, 21] {
            buffer.fill(byte);
            assert_eq!(file.write(&buffer[..BLOCK]).unwrap(), BLOCK);
        }
        assert_eq!(file.stream_position().unwrap(), 4 * BLOCK as u64);
        let mut appending = options.write(false).append(true).open(&path).unwrap();
        assert_eq!(appending.write(&buffer[..BLOCK]).unwrap(), BLOCK);
        assert_eq!(appending.stream_position().unwrap(), 11 * BLOCK as u64);
        appending.rewind().unwrap();
        assert_eq!(appending.read(&mut buffer[..BLOCK]).unwrap(), BLOCK);
        assert_eq!(appending.stream_position().unwrap(), BLOCK as u64);
        let firsts: Vec<u8> = std::fs::read(&path)
            .unwrap()
            .chunks(BLOCK)
            .map(|block| block[0])
            .collect();
        assert_eq!(firsts, [0, 1, 20, 21, 4, 5, 6, 7, 8, 9, 21]);
    });
}

fn files_of_the_kernel_are_read_in_pieces_and_whole(place: Place) {
    place.run(|| {
        for path in [
            "/proc/version",
            "/proc/cpuinfo",
            "/sys/kernel/mm/transparent_hugepage/enabled",
        ] {
            if !Path::new(path).exists() {
                continue;
            }
            let mut whole = String::from("before ");
            let count = File::open(path)
                .unwrap()
                .read_to_string(&mut whole)
                .unwrap();
            assert_eq!(whole.len(), "before ".len() + count);
            let mut pieces = Vec::new();
            let mut file = File::open(path).unwrap();
            let mut piece = [0; 7];
            while let count @ 1.. = file.read(&mut piece).unwrap() {
                pieces.extend_from_slice(&piece[..count]);
            }
            // The frequency of a CPU changes from read to read.
            assert_eq!(
                pieces.iter().filter(|byte| **byte == b'\n').count(),
                whole.matches('\n').count()
            );
            let mut middle = [0; 4];
            file.read_exact_at(&mut middle, 2).unwrap();
            assert_eq!(middle, whole.as_bytes()["before ".len() + 2..][..4]);
        }
    });
}
