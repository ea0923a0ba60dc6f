//! Files: each call behaves like that of `std`, in a fiber and outside.

use std::io::{self, ErrorKind, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::pattern;
use tempfile::{TempDir, tempdir};
use uthread::fs::{self, File, FileTimes, OpenOptions};

behaviours![(
    EVERYWHERE,
    [
        big_contents_come_back_byte_for_byte,
        copying_and_buffering_work_as_with_any_reader,
        an_empty_buffer_moves_nothing,
        seeking_moves_where_the_next_call_is,
        calls_at_an_offset_leave_the_position_alone,
        the_largest_offsets_answer_as_those_of_std,
        set_len_cuts_and_extends,
        syncing_works_where_there_is_a_disk,
        permissions_and_metadata_are_those_of_the_file,
        times_are_set_as_with_std,
        a_terminal_is_known,
        a_process_writes_into_a_file,
        text_is_appended_to_a_string,
        clones_share_the_position_and_outlive_each_other,
        conversions_keep_the_descriptor_and_the_position,
        a_descriptor_opened_here_is_not_inherited,
        many_fibers_append_whole_records,
        text_that_is_none_is_refused_and_leaves_the_string_alone,
        a_file_too_long_for_memory_is_an_error
    ]
)];

/// Creates a file with these contents, and returns its directory and its path.
fn file_with(contents: &[u8]) -> (TempDir, PathBuf) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, contents).unwrap();
    (directory, path)
}

/// Returns an open file without a name that has these contents.
fn nameless(contents: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(contents).unwrap();
    file.rewind().unwrap();
    File::from(file)
}

fn result_of<T>(result: io::Result<T>) -> Result<T, (ErrorKind, Option<i32>)> {
    result.map_err(|error| (error.kind(), error.raw_os_error()))
}

fn big_contents_come_back_byte_for_byte(place: Place) {
    let contents = pattern(5 * 1024 * 1024 + 13, 0);
    place.run(|| {
        let (_directory, path) = file_with(b"something else");
        fs::write(&path, &contents).unwrap();
        assert!(std::fs::read(&path).unwrap() == contents);
        assert!(fs::read(&path).unwrap() == contents);
        let mut file = File::open(&path).unwrap();
        let mut part = vec![0; 70_001];
        for expected in contents.chunks(part.len()) {
            file.read_exact(&mut part[..expected.len()]).unwrap();
            assert!(part[..expected.len()] == *expected);
        }
        assert_eq!(file.read(&mut part).unwrap(), 0);
        file.read_exact_at(&mut part, 1_234_567).unwrap();
        assert!(part == contents[1_234_567..][..part.len()]);
    });
}

fn copying_and_buffering_work_as_with_any_reader(place: Place) {
    let contents = pattern(300_000, 0);
    place.run(|| {
        let (_directory, path) = file_with(&contents);
        let mut copy = nameless(b"");
        let mut reader = io::BufReader::new(File::open(&path).unwrap());
        assert_eq!(io::copy(&mut reader, &mut copy).unwrap(), 300_000);
        copy.flush().unwrap();
        copy.rewind().unwrap();
        let mut read = Vec::new();
        assert_eq!((&copy).read_to_end(&mut read).unwrap(), 300_000);
        assert!(read == contents);
    });
}

fn an_empty_buffer_moves_nothing(place: Place) {
    place.run(|| {
        let mut file = nameless(b"text");
        assert_eq!(file.read(&mut []).unwrap(), 0);
        assert_eq!(file.write(&[]).unwrap(), 0);
        assert_eq!(file.read_at(&mut [], 2).unwrap(), 0);
        assert_eq!(file.stream_position().unwrap(), 0);
        assert_eq!(file.metadata().unwrap().len(), 4);
    });
}

fn seeking_moves_where_the_next_call_is(place: Place) {
    place.run(|| {
        let mut file = nameless(b"0123456789");
        let mut byte = [0];
        for (to, position) in [
            (SeekFrom::Start(3), 3),
            (SeekFrom::Current(2), 6),
            (SeekFrom::Current(-7), 0),
            (SeekFrom::End(-1), 9),
            (SeekFrom::Start(0), 0),
        ] {
            assert_eq!(file.seek(to).unwrap(), position);
            file.read_exact(&mut byte).unwrap();
            assert_eq!(u64::from(byte[0] - b'0'), position);
        }
        for to in [
            SeekFrom::Current(-2),
            SeekFrom::End(-11),
            SeekFrom::Start(u64::MAX),
        ] {
            assert_eq!(file.seek(to).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(file.stream_position().unwrap(), 1);

        assert_eq!(file.seek(SeekFrom::End(5)).unwrap(), 15);
        assert_eq!(file.read(&mut byte).unwrap(), 0);
        file.write_all(b"!").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "0123456789\0\0\0\0\0!");
    });
}

fn calls_at_an_offset_leave_the_position_alone(place: Place) {
    place.run(|| {
        let mut file = nameless(b"0123456789");
        file.seek(SeekFrom::Start(4)).unwrap();
        let mut bytes = [0; 4];
        assert_eq!(file.read_at(&mut bytes, 8).unwrap(), 2);
        assert_eq!(bytes, *b"89\0\0");
        assert_eq!(file.read_at(&mut bytes, 10).unwrap(), 0);
        assert_eq!(file.read_at(&mut bytes, 1 << 40).unwrap(), 0);
        assert_eq!(file.write_at(b"abc", 12).unwrap(), 3);
        assert_eq!(file.stream_position().unwrap(), 4);
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"456789\0\0abc");
    });
}

fn the_largest_offsets_answer_as_those_of_std(place: Place) {
    place.run(|| {
        let file = nameless(b"text");
        let theirs = std::fs::File::from(file.as_fd().try_clone_to_owned().unwrap());
        for offset in [i64::MAX as u64, i64::MAX as u64 - 1, 1 << 62, u64::MAX] {
            assert_eq!(
                result_of(file.read_at(&mut [0; 8], offset)),
                result_of(theirs.read_at(&mut [0; 8], offset))
            );
            assert_eq!(
                result_of(file.write_at(b"text", offset)),
                result_of(theirs.write_at(b"text", offset))
            );
        }
    });
}

fn set_len_cuts_and_extends(place: Place) {
    place.run(|| {
        let mut file = nameless(b"0123456789");
        file.seek(SeekFrom::Start(8)).unwrap();
        file.set_len(4).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4);
        assert_eq!(file.stream_position().unwrap(), 8);
        file.set_len(6).unwrap();
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"0123\0\0");

        let (_directory, path) = file_with(b"text");
        let error = File::open(&path).unwrap().set_len(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
    });
}

fn syncing_works_where_there_is_a_disk(place: Place) {
    place.run(|| {
        let mut file = nameless(b"");
        file.write_all(b"text").unwrap();
        file.sync_all().unwrap();
        file.sync_data().unwrap();
        let (reader, _writer) = io::pipe().unwrap();
        let pipe = File::from(OwnedFd::from(reader));
        for result in [pipe.sync_all(), pipe.sync_data()] {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    });
}

fn permissions_and_metadata_are_those_of_the_file(place: Place) {
    place.run(|| {
        let (_directory, path) = file_with(b"text");
        let file = File::open(&path).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o604))
            .unwrap();
        let theirs = std::fs::metadata(&path).unwrap();
        for ours in [file.metadata().unwrap(), fs::metadata(&path).unwrap()] {
            assert!(ours.is_file());
            assert_eq!(ours.permissions().mode() & 0o7777, 0o604);
            assert_eq!(
                (ours.dev(), ours.ino(), ours.len(), ours.mtime_nsec()),
                (theirs.dev(), theirs.ino(), 4, theirs.mtime_nsec())
            );
        }
    });
}

fn times_are_set_as_with_std(place: Place) {
    let times = |seconds| SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    place.run(|| {
        let (_directory, path) = file_with(b"text");
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let both = FileTimes::new()
            .set_accessed(times(1_000))
            .set_modified(times(2_000));
        file.set_times(both).unwrap();
        let saved = || {
            let found = std::fs::metadata(&path).unwrap();
            (found.accessed().unwrap(), found.modified().unwrap())
        };
        assert_eq!(saved(), (times(1_000), times(2_000)));
        file.set_modified(times(3_000)).unwrap();
        assert_eq!(saved(), (times(1_000), times(3_000)));
        file.set_times(FileTimes::new()).unwrap();
        assert_eq!(saved(), (times(1_000), times(3_000)));
        let far =
            SystemTime::UNIX_EPOCH - Duration::from_secs(1 << 62) - Duration::from_secs(1 << 61);
        let ours = file.set_modified(far).map_err(|error| error.kind());
        let theirs = std::fs::File::from(file).set_modified(far);
        assert_eq!(ours, theirs.map_err(|error| error.kind()));
    });
}

fn a_terminal_is_known(place: Place) {
    place.run(|| {
        for path in ["Cargo.toml", "/dev/null", "/dev/ptmx"] {
            let Ok(file) = File::open(path) else {
                continue;
            };
            let is_terminal = file.is_terminal();
            assert_eq!(
                is_terminal,
                std::fs::File::from(file).is_terminal(),
                "{path}"
            );
        }
    });
}

fn a_process_writes_into_a_file(place: Place) {
    place.run(|| {
        let (_directory, path) = file_with(b"");
        let file = File::create(&path).unwrap();
        let echo = || Command::new("echo").arg("text").stdout(file).status();
        assert!(uthread::blocking(echo).unwrap().success());
        assert_eq!(fs::read(&path).unwrap(), b"text\n");
    });
}

fn text_is_appended_to_a_string(place: Place) {
    place.run(|| {
        let mut file = nameless("zw\u{f6}lf Boxk\u{e4}mpfer".as_bytes());
        let mut text = String::from("before ");
        file.seek(SeekFrom::Start(2)).unwrap();
        assert_eq!((&file).read_to_string(&mut text).unwrap(), 16);
        assert_eq!(text, "before \u{f6}lf Boxk\u{e4}mpfer");
        assert_eq!(file.read_to_string(&mut text).unwrap(), 0);
        // Amid a letter, the rest is no text.
        file.seek(SeekFrom::Start(3)).unwrap();
        assert_eq!(
            file.read_to_string(&mut text).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
        assert_eq!(text, "before \u{f6}lf Boxk\u{e4}mpfer");
    });
}

fn clones_share_the_position_and_outlive_each_other(place: Place) {
    place.run(|| {
        let mut file = nameless(b"0123456789");
        let mut clone = file.try_clone().unwrap();
        let mut third = clone.try_clone().unwrap();
        let mut two = [0; 2];
        for expected in [b"01", b"23"] {
            file.read_exact(&mut two).unwrap();
            assert_eq!(&two, expected);
            assert_eq!(
                clone.stream_position().unwrap(),
                file.stream_position().unwrap()
            );
        }
        drop(file);
        clone.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"45");
        drop(clone);
        third.seek(SeekFrom::Current(2)).unwrap();
        third.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"89");
    });
}

fn conversions_keep_the_descriptor_and_the_position(place: Place) {
    place.run(|| {
        let mut file = nameless(b"0123456789");
        let number = file.as_raw_fd();
        assert_eq!(file.as_fd().as_raw_fd(), number);
        let mut byte = [0];
        file.read_exact(&mut byte).unwrap();
        let mut theirs = std::fs::File::from(file);
        assert_eq!(theirs.as_raw_fd(), number);
        theirs.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"1");
        let owned = OwnedFd::from(File::from(theirs));
        assert_eq!(owned.as_raw_fd(), number);
        let mut file = File::from(owned);
        file.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"2");
        assert!(rustix::io::fcntl_getfd(&file).unwrap() == rustix::io::FdFlags::CLOEXEC);
    });
}

fn a_descriptor_opened_here_is_not_inherited(place: Place) {
    place.run(|| {
        let (_directory, path) = file_with(b"");
        for file in [
            File::open(&path).unwrap(),
            File::create(&path).unwrap(),
            File::open(&path).unwrap().try_clone().unwrap(),
        ] {
            let flags = rustix::io::fcntl_getfd(&file).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
    });
}

fn many_fibers_append_whole_records(place: Place) {
    const WRITERS: u8 = 10;
    const RECORDS: usize = 100;
    let append = |path: &Path| OpenOptions::new().append(true).open(path).unwrap();
    place.run(|| {
        let (_directory, path) = file_with(b"");
        let shared = append(&path);
        uthread::scope(|scope| {
            for writer in 0..WRITERS {
                let (path, shared) = (&path, &shared);
                scope.spawn(move || {
                    let own = append(path);
                    for record in 0..RECORDS {
                        let mut file = if record % 2 == 0 { shared } else { &own };
                        assert_eq!(file.write(&[writer; 33]).unwrap(), 33);
                    }
                });
            }
        });
        let mut counts = [0; WRITERS as usize];
        for record in std::fs::read(&path).unwrap().chunks(33) {
            assert_eq!(record, [record[0]; 33], "a torn record");
            counts[usize::from(record[0])] += 1;
        }
        assert_eq!(counts, [RECORDS; WRITERS as usize]);
    });
}

fn text_that_is_none_is_refused_and_leaves_the_string_alone(place: Place) {
    place.run(|| {
        let (_directory, path) = file_with(b"good\xffbad");
        let mut text = String::from("before");
        let error = File::open(&path)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert_eq!(text, "before");
        let error = fs::read_to_string(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        std::fs::write(&path, "gr\u{fc}n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "gr\u{fc}n");
        std::fs::write(&path, "").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    });
}

fn a_file_too_long_for_memory_is_an_error(place: Place) {
    place.run(|| {
        let memory = rustix::fs::memfd_create("long", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(memory);
        file.set_len(i64::MAX as u64).unwrap();
        let mut bytes = vec![1, 2, 3];
        let error = file.read_to_end(&mut bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(bytes, [1, 2, 3]);
    });
}
