//! Directories: what a crash loses of changes that were not synced.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use uthread::Runtime;
use uthread_simulation::World;

const SEEDS: u64 = 60;

/// Prepares a disk, on which a program then changes something, and crashes. Returns the names that are left with
/// the contents of files, and the trace.
fn after_a_crash(
    seed: u64,
    prepare: fn(&Path) -> io::Result<()>,
    program: fn(&Path) -> io::Result<()>,
) -> (Vec<String>, String) {
    let builder = uthread_simulation::seeded(Runtime::builder(), seed);
    builder.build().unwrap().run(|| {
        let world = World::new().unwrap();
        let directory = world.directory("host").unwrap();
        prepare(&directory).unwrap();
        let own = directory.clone();
        let host = world.host("host", move || {
            program(&own)?;
            uthread::sleep(Duration::from_secs(60));
            Ok(())
        });
        uthread::sleep(Duration::from_secs(1));
        host.crash();
        assert_eq!(world.escapes(), "");
        let mut left = Vec::new();
        list(&directory, "", &mut left);
        left.sort();
        (left, world.trace())
    })
}

fn list(directory: &Path, prefix: &str, left: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            left.push(format!("{name}/"));
            list(&entry.path(), &format!("{name}/"), left);
        } else {
            let text = fs::read_to_string(entry.path()).unwrap();
            left.push(format!("{name}={text}"));
        }
    }
}

/// Returns each outcome once.
pub(crate) fn outcomes(
    prepare: fn(&Path) -> io::Result<()>,
    program: fn(&Path) -> io::Result<()>,
) -> Vec<String> {
    let run = |seed| after_a_crash(seed, prepare, program);
    let runs: Vec<_> = (0..SEEDS).map(run).collect();
    assert_eq!(runs[7], run(7), "its seed repeats it");
    let mut outcomes: Vec<_> = runs.into_iter().map(|(left, _)| left.join(" ")).collect();
    outcomes.sort();
    outcomes.dedup();
    outcomes
}

/// Replaces a file as one does that must never be seen in parts.
fn replace(directory: &Path) -> io::Result<()> {
    let mut file = File::create(directory.join("tmp"))?;
    file.write_all(b"new")?;
    file.sync_all()?;
    fs::rename(directory.join("tmp"), directory.join("file"))
}

fn nothing(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) fn old(directory: &Path) -> io::Result<()> {
    fs::write(directory.join("file"), "old")
}

#[test]
fn a_rename_may_be_lost_without_a_sync_of_its_directory() {
    let found = outcomes(old, replace);
    assert_eq!(found, ["file=new", "file=old", "file=old tmp=new"]);
    let found = outcomes(nothing, replace);
    assert_eq!(found, ["", "file=new", "tmp=new"]);
}

#[test]
fn a_rename_is_durable_with_a_sync_of_its_directory() {
    let found = outcomes(old, |directory| {
        replace(directory)?;
        File::open(directory)?.sync_all()
    });
    assert_eq!(found, ["file=new"]);
    let found = outcomes(old, |directory| {
        uthread::fs::write(directory.join("tmp"), "new")?;
        uthread::fs::File::open(directory.join("tmp"))?.sync_all()?;
        uthread::fs::rename(directory.join("tmp"), directory.join("file"))?;
        uthread::fs::File::open(directory)?.sync_all()
    });
    assert_eq!(found, ["file=new"]);
}

#[test]
fn the_library_is_told_of_like_std() {
    let found = outcomes(old, |directory| {
        uthread::fs::write(directory.join("tmp"), "new")?;
        uthread::fs::File::open(directory.join("tmp"))?.sync_all()?;
        uthread::fs::rename(directory.join("tmp"), directory.join("file"))
    });
    assert_eq!(found, ["file=new", "file=old", "file=old tmp=new"]);
}

#[test]
fn removals_may_be_lost_with_all_that_was_in_a_directory() {
    let found = outcomes(
        |directory| {
            fs::create_dir_all(directory.join("a/b"))?;
            fs::write(directory.join("a/b/file"), "1")
        },
        |directory| fs::remove_dir_all(directory.join("a")),
    );
    assert_eq!(found, ["", "a/", "a/ a/b/", "a/ a/b/ a/b/file=1"]);
}

#[test]
fn a_directory_may_be_lost_with_what_was_synced_in_it() {
    let found = outcomes(nothing, |directory| {
        let own = directory.join("own");
        fs::create_dir(&own)?;
        let mut file = File::create(own.join("file"))?;
        file.write_all(b"1")?;
        file.sync_all()?;
        File::open(&own)?.sync_all()
    });
    assert_eq!(found, ["", "own/ own/file=1"]);
}

#[test]
fn a_rename_between_directories_takes_a_sync_of_both() {
    fn prepare(directory: &Path) -> io::Result<()> {
        fs::create_dir(directory.join("from"))?;
        fs::create_dir(directory.join("to"))?;
        fs::write(directory.join("from/file"), "1")
    }
    fn rename(directory: &Path) -> io::Result<()> {
        fs::rename(directory.join("from/file"), directory.join("to/file"))?;
        File::open(directory.join("to"))?.sync_all()
    }
    let found = outcomes(prepare, rename);
    let present = ["from/ from/file=1 to/", "from/ to/ to/file=1"];
    assert_eq!(found, present);
    let found = outcomes(prepare, |directory| {
        rename(directory)?;
        File::open(directory.join("from"))?.sync_all()
    });
    assert_eq!(found, [present[1]]);
}

#[test]
fn calls_that_fail_change_nothing() {
    let found = outcomes(old, |directory| {
        let file = directory.join("file");
        assert!(fs::create_dir(&file).is_err());
        assert!(fs::remove_dir(&file).is_err());
        assert!(fs::remove_file(directory).is_err());
        assert!(fs::rename(directory.join("missing"), &file).is_err());
        assert!(fs::hard_link(directory.join("missing"), &file).is_err());
        assert!(fs::write(directory.join("missing/file"), "1").is_err());
        File::open(directory.join("file")).map(drop)
    });
    assert_eq!(found, ["file=old"]);
}

#[test]
fn a_loss_is_a_fault_in_the_trace() {
    let traces = (0..SEEDS).map(|seed| after_a_crash(seed, old, replace).1);
    let lines: Vec<_> = traces
        .filter_map(|trace| {
            trace
                .lines()
                .find(|line| line.contains("loses"))
                .map(str::to_owned)
        })
        .collect();
    let whole = "host: loses what was not synced: `tmp` renamed to `file`, `tmp` created (fault 2)";
    assert!(lines.iter().any(|line| line.ends_with(whole)), "{lines:?}");
}
