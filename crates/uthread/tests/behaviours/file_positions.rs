//! The position of an open file: shared by clones, used by one call at a time.

use std::fs::Permissions;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::sync::Arc;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use uthread::fs::{File, OpenOptions};
use uthread::spawn;

behaviours![(
    EVERYWHERE,
    [
        writers_that_share_a_position_lose_nothing,
        offsets_beyond_the_signed_range_are_refused,
        a_file_without_a_name_has_the_mode_asked_for,
        reading_to_the_end_starts_at_the_position_and_sees_growth,
        offsets_in_a_pipe_are_refused
    ]
)];

const WRITERS: usize = 8;
const RECORDS: usize = 500;
const RECORD_BYTES: usize = 64;

fn temporary() -> File {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .mode(0o640)
        .custom_flags(rustix::fs::OFlags::TMPFILE.bits().cast_signed());
    options.open(std::env::temp_dir()).unwrap()
}

fn write_records(mut file: &File, writer: usize) {
    for _ in 0..RECORDS {
        file.write_all(&[writer as u8; RECORD_BYTES]).unwrap();
    }
}

/// Catches requests of the ring that do not take turns: they start at the same position and write
/// over each other.
fn writers_that_share_a_position_lose_nothing(place: Place) {
    place.run(|| {
        let file = Arc::new(temporary());
        let clone = Arc::new(file.try_clone().unwrap());
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let file = Arc::clone([&file, &clone][writer % 2]);
                spawn(move || write_records(&file, writer))
            })
            .collect();
        let outside = Arc::clone(&file);
        let thread = std::thread::spawn(move || write_records(&outside, WRITERS));
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        spawn(move || thread.join().unwrap()).join().unwrap();

        let mut bytes = Vec::new();
        (&*file).rewind().unwrap();
        (&*clone).read_to_end(&mut bytes).unwrap();
        let mut counts = [0; WRITERS + 1];
        for record in bytes.chunks(RECORD_BYTES) {
            assert!(
                record.iter().all(|byte| *byte == record[0]),
                "a torn record"
            );
            counts[usize::from(record[0])] += 1;
        }
        assert_eq!(counts, [RECORDS; WRITERS + 1]);
    });
}

fn offsets_beyond_the_signed_range_are_refused(place: Place) {
    place.run(|| {
        let file = temporary();
        file.write_all_at(b"text", 0).unwrap();
        for offset in [u64::MAX, i64::MAX as u64 + 1] {
            let error = file.read_at(&mut [0; 4], offset).unwrap_err();
            assert_eq!(
                error.raw_os_error(),
                Some(rustix::io::Errno::INVAL.raw_os_error())
            );
            assert!(file.write_at(b"x", offset).is_err());
        }
        assert_eq!((&file).stream_position().unwrap(), 0);
    });
}

fn a_file_without_a_name_has_the_mode_asked_for(place: Place) {
    let mode = place.run(|| temporary().metadata().unwrap().permissions());
    assert_eq!(mode.mode() & 0o777, Permissions::from_mode(0o640).mode());
}

fn reading_to_the_end_starts_at_the_position_and_sees_growth(place: Place) {
    place.run(|| {
        let mut file = temporary();
        file.write_all(&[7; 100_000]).unwrap();
        file.seek(std::io::SeekFrom::Start(99_000)).unwrap();
        let mut bytes = vec![1, 2];
        assert_eq!(file.read_to_end(&mut bytes).unwrap(), 1000);
        assert_eq!(bytes.len(), 1002);
        assert_eq!(&bytes[..3], [1, 2, 7]);
        let mut version = String::new();
        File::open("/proc/version")
            .unwrap()
            .read_to_string(&mut version)
            .unwrap();
        assert!(version.starts_with("Linux"));
    });
}

/// Catches a read of a pipe at an offset, which the ring ignores: it took the bytes that another
/// reader was to get.
fn offsets_in_a_pipe_are_refused(place: Place) {
    place.run(|| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"text").unwrap();
        let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(writer));
        let (mut reader, writer) = (File::from(reader), File::from(writer));
        for result in [
            reader.read_at(&mut [0; 2], 1).map(drop),
            writer.write_at(b"x", 0).map(drop),
            reader.stream_position().map(drop),
        ] {
            let number = result.unwrap_err().raw_os_error();
            assert_eq!(number, Some(rustix::io::Errno::SPIPE.raw_os_error()));
        }
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        // A device may have offsets, and some have.
        let zeroes = File::open("/dev/zero").unwrap();
        assert_eq!(zeroes.read_at(&mut [1; 4], 100).unwrap(), 4);
    });
}
