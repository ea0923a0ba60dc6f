//! Every technique, on a file of the file system of the build.

use std::path::PathBuf;
use std::sync::Arc;

use fastrand::Rng;
use tempfile::NamedTempFile;

use super::*;
use crate::blocks;
use crate::load::Pattern;

const BLOCKS: u64 = 64;

/// Writes a file of numbered blocks. Returns `None` if the file system has no direct I/O.
fn file() -> Option<NamedTempFile> {
    let program = std::env::current_exe().unwrap();
    let file = NamedTempFile::new_in(program.parent().unwrap()).unwrap();
    let mut random = Rng::with_seed(1);
    let mut bytes = vec![0; BLOCK_BYTES];
    for block in 0..BLOCKS {
        blocks::fill(block, &mut random, &mut bytes);
        file.as_file().write_all_at(&bytes, offset(block)).unwrap();
    }
    file.as_file().sync_all().unwrap();
    match crate::test_files::buffer(file.as_file()) {
        Ok(_) => Some(file),
        Err(error) => {
            println!("not tested: {error}");
            None
        }
    }
}

fn load(paths: &[PathBuf], pattern: Pattern, depth: usize) -> Load {
    Load {
        files: paths.to_vec(),
        pattern,
        requests: 3 * BLOCKS,
        seconds: None,
        depth,
        is_batched: false,
        seed: 1,
    }
}

/// Returns the techniques that this machine has.
fn available(path: &Path) -> impl Iterator<Item = Technique> {
    let works = move |technique: &Technique| {
        let load = load(&[path.to_owned()], Pattern::Sequential, 1);
        let result = perform(*technique, &load);
        if let Err(error) = &result {
            println!("{technique:?} is not tested: {error}");
        }
        result.is_ok()
    };
    Technique::ALL.into_iter().filter(works)
}

#[test]
fn every_technique_performs_all_requests() {
    let Some(file) = file() else { return };
    let paths = [file.path().to_owned()];
    let mut count = 0;
    for technique in available(file.path()) {
        for (pattern, depth) in [
            (Pattern::Sequential, 1),
            (Pattern::Random, 16),
            (Pattern::Random, 256),
            (Pattern::Mixed, 8),
        ] {
            let tally = perform(technique, &load(&paths, pattern, depth));
            let tally = tally.unwrap_or_else(|error| panic!("{technique:?} {pattern:?}: {error}"));
            assert_eq!(tally.requests(), 3 * BLOCKS, "{technique:?} {pattern:?}");
            let [reads, writes, syncs] = tally.latencies();
            let is_mixed = pattern == Pattern::Mixed;
            assert_eq!((writes.is_some(), syncs.is_some()), (is_mixed, is_mixed));
            assert!(reads.unwrap().mean_us > 0.0, "{technique:?}");
        }
        count += 1;
    }
    assert!(count >= 6, "only {count} techniques");
}

#[test]
fn every_technique_finds_a_corrupted_block() {
    let Some(file) = file() else { return };
    file.as_file().write_all_at(b"x", offset(7)).unwrap();
    file.as_file().sync_all().unwrap();
    let corrupted = [file.path().to_owned()];
    let Some(whole) = self::file() else { return };
    for technique in available(whole.path()) {
        let load = load(&corrupted, Pattern::Sequential, 4);
        let error = perform(technique, &load).err().unwrap().to_string();
        assert!(
            error.contains("block 7 is corrupted"),
            "{technique:?}: {error}"
        );
    }
}

#[test]
fn a_batch_has_one_call() {
    let Some(file) = file() else { return };
    let paths = [file.path().to_owned()];
    for technique in available(file.path()).filter(|technique| !technique.is_ours()) {
        let mut load = load(&paths, Pattern::Sequential, 32);
        load.is_batched = true;
        let calls = perform(technique, &load).unwrap().calls;
        let batches = load.requests / 32;
        match technique {
            Technique::Pread => assert_eq!(calls, Some(load.requests)),
            Technique::LinuxAio => assert!(calls.unwrap() < 3 * batches, "{calls:?}"),
            // A call may be interrupted, and a polled one returns early.
            Technique::Ring | Technique::RingRegistered => {
                let calls = calls.unwrap();
                assert!(
                    (batches..2 * batches).contains(&calls),
                    "{technique:?}: {calls}"
                );
            }
            _ => {}
        }
    }
}

#[test]
fn four_files_have_four_threads() {
    let files: Option<Vec<NamedTempFile>> = (0..4).map(|_| file()).collect();
    let Some(files) = files else { return };
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path().to_owned()).collect();
    for technique in available(&paths[0]) {
        let tally = perform(technique, &load(&paths, Pattern::Random, 4)).unwrap();
        assert_eq!(tally.requests(), 4 * 3 * BLOCKS, "{technique:?}");
    }
}

#[test]
fn buffers_in_flight_are_kept() {
    let file = Arc::new(tempfile::tempfile().unwrap());
    let Ok(mut slots) = slots::Slots::new(&file, 2) else {
        return;
    };
    let start = slots.lend(1);
    assert_eq!(slots.lent().collect::<Vec<_>>(), [1]);
    slots.buffer(0)[0] = 1;
    let touched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| slots.buffer(1)[0]));
    assert!(touched.is_err() && !start.is_null());
    slots.take_back(1);
    assert_eq!(slots.buffer(1)[0], 0);
}
