//! Urgent requests beside rivals, on each driver. Latencies are not tested: they depend on the
//! machine.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use fastrand::Rng;
use tempfile::NamedTempFile;
use uthread::Driver;

use super::*;
use crate::blocks::{self, BLOCK_BYTES};

const BLOCKS: u64 = 64;
const REQUESTS: u64 = 100;
const RIVALS: [Rivals; 3] = [Rivals::None, Rivals::Equal, Rivals::Background];

/// Writes a file of numbered blocks. Returns `None` if the file system has no direct I/O.
fn file() -> Option<NamedTempFile> {
    let program = std::env::current_exe().unwrap();
    let file = NamedTempFile::new_in(program.parent().unwrap()).unwrap();
    let mut random = Rng::with_seed(1);
    let mut bytes = vec![0; BLOCK_BYTES];
    for block in 0..BLOCKS {
        blocks::fill(block, &mut random, &mut bytes);
        let offset = block * BLOCK_BYTES as u64;
        file.as_file().write_all_at(&bytes, offset).unwrap();
    }
    crate::test_files::buffer(file.as_file())
        .is_ok()
        .then_some(file)
}

fn load(files: Vec<PathBuf>, pattern: Pattern) -> Load {
    Load {
        files,
        pattern,
        requests: REQUESTS,
        seconds: None,
        depth: 8,
        is_batched: false,
        seed: 1,
    }
}

/// Calls `test` with a runtime of one worker on each driver that this machine has.
fn on_each_driver(test: impl Fn(&Runtime)) {
    for &driver in Driver::ALL {
        match Runtime::builder().driver(driver).workers(1).build() {
            Ok(runtime) => test(&runtime),
            Err(error) => println!("{driver} is not tested: {error}"),
        }
    }
}

/// Checks that all urgent requests were made, and others beside them unless there are no rivals.
fn check(load: &Load, rivals: Rivals, runtime: &Runtime) {
    let tally = perform(load, runtime).unwrap();
    let [urgent, others, _] = tally.latencies();
    assert_eq!(urgent.unwrap().count, REQUESTS, "{rivals:?}");
    assert_eq!(others.is_some(), rivals != Rivals::None, "{rivals:?}");
    assert!(tally.span.is_some());
}

#[test]
fn reads_are_made_beside_writes() {
    let Some(file) = file() else { return };
    on_each_driver(|runtime| {
        for rivals in RIVALS {
            let load = load(vec![file.path().to_owned()], Pattern::UrgentReads(rivals));
            check(&load, rivals, runtime);
        }
    });
}

#[test]
fn echoes_are_made_beside_bulk_transfers() {
    on_each_driver(|runtime| {
        for rivals in RIVALS {
            check(
                &load(Vec::new(), Pattern::UrgentEchoes(rivals)),
                rivals,
                runtime,
            );
        }
    });
}

#[test]
fn a_failed_read_ends_the_rivals() {
    let Some(file) = file() else { return };
    let corrupted = [7; BLOCK_BYTES];
    let pattern = Pattern::UrgentReads(Rivals::Background);
    let mut load = load(vec![file.path().to_owned()], pattern);
    // The load writes numbered blocks, but not all of them before the first reads.
    load.depth = 1;
    on_each_driver(|runtime| {
        for block in 0..BLOCKS {
            let offset = block * BLOCK_BYTES as u64;
            file.as_file().write_all_at(&corrupted, offset).unwrap();
        }
        let error = perform(&load, runtime).map(drop).unwrap_err();
        assert!(error.to_string().contains("is corrupted"), "{error}");
    });
    load.files.clear();
    on_each_driver(|runtime| {
        let error = perform(&load, runtime).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    });
}
