//! Files that are not in memory: readers notice it, and start others on threads. What is found is the
//! same.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{Advice, fadvise, syncfs};

use super::{DRIVERS, search_on};

const FOLDERS: usize = 6;
const FILES_EACH: usize = 100;
/// Size of a file that is searched as a stream.
const LARGE_BYTES: usize = 400 * 1024;

/// Writes files with different numbers of lines, and returns what `-c` finds in them.
fn make(folder: &Path) -> Vec<String> {
    let mut counts = Vec::new();
    for place in 0..FOLDERS {
        fs::create_dir(folder.join(place.to_string())).unwrap();
        for number in 0..FILES_EACH {
            let path = format!("{place}/{number}");
            let lines = place * FILES_EACH + number;
            let mut text = "alpha\n".repeat(lines);
            match number % 10 {
                // A binary file, and a stream.
                1 => text.push('\0'),
                2 => text += &"beta\n".repeat(LARGE_BYTES / 5),
                _ => write!(text, "no end of line").unwrap(),
            }
            fs::write(folder.join(&path), text).unwrap();
            if lines > 0 {
                counts.push(format!("{path}:{lines}"));
            }
        }
    }
    counts.sort();
    counts
}

/// Removes the files from the page cache, where the file system has a disk.
fn forget(folder: &Path) {
    syncfs(File::open(folder).unwrap()).unwrap();
    for place in 0..FOLDERS {
        for number in 0..FILES_EACH {
            let file = File::open(folder.join(format!("{place}/{number}"))).unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        }
    }
}

#[test]
fn files_on_the_disk_are_searched_like_files_in_memory() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let expected = make(folder.path());
    for driver in DRIVERS {
        for sort in ["none", "path"] {
            forget(folder.path());
            let arguments = ["-a", "-c", "alpha", "--sort", sort];
            let output = search_on(driver, &arguments, folder.path()).output();
            let output = output.unwrap();
            assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
            let mut found = Vec::from_iter(str::from_utf8(&output.stdout).unwrap().lines());
            found.sort();
            assert_eq!(found, expected, "{driver}, --sort {sort}");
        }
    }
}
