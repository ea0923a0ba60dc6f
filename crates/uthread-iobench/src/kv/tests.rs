//! The store, on each driver and after damage to its file.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use tempfile::NamedTempFile;
use uthread::Driver;

use super::*;
use crate::load::Pattern;

const BLOCKS: u64 = 256;

/// Creates an empty file. Returns `None` if the file system has no direct I/O.
fn file() -> Option<NamedTempFile> {
    let program = std::env::current_exe().unwrap();
    let file = NamedTempFile::new_in(program.parent().unwrap()).unwrap();
    file.as_file().set_len(BLOCKS * BLOCK_BYTES as u64).unwrap();
    crate::test_files::buffer(file.as_file())
        .is_ok()
        .then_some(file)
}

fn load(path: PathBuf, depth: usize) -> Load {
    Load {
        files: vec![path],
        pattern: Pattern::KeyValue,
        requests: 600,
        seconds: None,
        depth,
        is_batched: false,
        seed: 1,
    }
}

#[test]
fn stored_values_are_found_again() {
    let Some(file) = file() else { return };
    for &driver in Driver::ALL {
        let Ok(runtime) = Runtime::builder().driver(driver).workers(1).build() else {
            continue;
        };
        for depth in [1, 20] {
            let tally = perform(&load(file.path().to_owned(), depth), &runtime).unwrap();
            assert_eq!(tally.requests(), 600, "{driver}");
            // Every put was written, and half of the blocks are live: compaction has copied some.
            assert!(
                tally.written_per_put > Some(1.0),
                "{:?}",
                tally.written_per_put
            );
        }
    }
}

#[test]
fn a_damaged_record_is_found() {
    let Some(file) = file() else { return };
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .direct(true)
        .open(file.path());
    let opened = opened.unwrap();
    let store = Store::create(&opened, 5).unwrap();
    (0..20).for_each(|key| store.put(key).unwrap());
    store.put(7).unwrap();
    assert_eq!(store.get(7).unwrap(), Some(21));
    assert_eq!(store.get(20).unwrap(), None);
    let recovered = Store::recover(&opened, 5).unwrap();
    assert_eq!(recovered.contents(), store.contents());
    assert!(Store::recover(&opened, 6).unwrap().contents().is_empty());

    // The newest record is the last one.
    let last = 20 * BLOCK_BYTES as u64 + 100;
    file.as_file().write_all_at(b"damage", last).unwrap();
    file.as_file().sync_all().unwrap();
    let error = store.get(7).unwrap_err().to_string();
    assert!(error.contains("key 7"), "{error}");
    // The version before is still there.
    assert!(
        Store::recover(&opened, 5)
            .unwrap()
            .contents()
            .contains(&(7, 8))
    );
}
