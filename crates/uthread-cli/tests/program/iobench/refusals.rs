//! A refusal is one line, and exit code 2.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use super::{CANNOT_START, folder, iobench, is_empty, is_skipped, run};

/// Checks that the run ends with one line that contains `expected`.
fn refused(command: &mut Command, expected: &str) {
    let (code, errors) = run(command);
    // The line before tells what is being written.
    let lines: Vec<&str> = errors
        .lines()
        .filter(|line| line.starts_with("uthread: "))
        .collect();
    assert_eq!((code, lines.len()), (CANNOT_START, 1), "{errors}");
    assert!(lines[0].contains(expected), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
}

#[test]
fn a_file_system_in_memory_is_refused() {
    let memory = Path::new("/dev/shm");
    // The type is `TMPFS_MAGIC`.
    if rustix::fs::statfs(memory).is_ok_and(|found| found.f_type == 0x0102_1994) {
        let reason = "cannot be measured past the page cache";
        refused(&mut iobench(&["rand-read"], memory), reason);
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let folder = folder();
    let missing = folder.path().join("missing");
    let reason = format!("cannot create a file in {}", missing.display());
    refused(&mut iobench(&["rand-read"], &missing), &reason);
    refused(
        &mut iobench(&["rand-read"], Path::new("/proc")),
        "cannot create a file in /proc",
    );
    let json = folder.path().join("missing/a.json");
    let mut command = iobench(&["rand-read"], folder.path());
    refused(command.arg("--json").arg(json), "cannot write");
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_the_measurement() {
    let folder = folder();
    for path in [folder.path(), Path::new("/proc/a.html")] {
        let mut command = iobench(&["rand-read"], folder.path());
        let expected = format!("cannot write {}", path.display());
        refused(command.arg("--html").arg(path), &expected);
    }
}

#[test]
fn a_technique_that_does_not_exist_is_refused() {
    let folder = folder();
    let mut command = iobench(&["rand-read", "--only", "pread,typo"], folder.path());
    refused(&mut command, "there is no technique \"typo\": pread, ");
}

#[test]
fn too_little_space_is_one_line() {
    let folder = folder();
    let plain = iobench(&["rand-read"], folder.path());
    // In blocks of 512 or 1,024 bytes: less than the file.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 100; exec \"$@\"", "sh"]);
    command.arg(plain.get_program()).args(plain.get_args());
    let (code, errors) = run(&mut command);
    if !is_skipped(code, &errors) {
        refused(&mut command, "cannot write 1 MiB in");
    }
    assert!(is_empty(folder.path()));
}

/// Mounts the image `$0` at `$1`, in a mount namespace that vanishes with the program `$2`.
const MOUNT: &str = r#"mount -o loop "$0" "$1" || exit 77; shift; exec "$@""#;
/// Exit code if nothing can be mounted.
const CANNOT_MOUNT: i32 = 77;

#[test]
fn a_full_disk_is_one_line() {
    let folder = folder();
    let (image, disk) = (folder.path().join("image"), folder.path().join("disk"));
    fs::create_dir(&disk).unwrap();
    File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let format = Command::new("mkfs.ext4").arg("-q").arg(&image).output();
    if !format.is_ok_and(|output| output.status.success()) {
        println!("not tested here: no mkfs.ext4");
        return;
    }
    // The file system takes some of the 1 MiB that the file needs.
    let plain = iobench(&["rand-read"], &disk);
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", MOUNT])
        .args([&image, &disk]);
    command.arg(plain.get_program()).args(plain.get_args());
    let output = command.output();
    let is_mounted = |output: &Output| {
        output.status.code() != Some(CANNOT_MOUNT) && !output.stderr.starts_with(b"unshare: ")
    };
    if !output.is_ok_and(|output| is_mounted(&output)) {
        println!("not tested here: mounting a file system needs root and loop devices");
        return;
    }
    let reason = format!("cannot write 1 MiB in {}: No space left", disk.display());
    refused(&mut command, &reason);
    assert!(is_empty(&disk));
}

#[test]
fn wrong_usage_is_refused() {
    let folder = folder();
    for arguments in [
        ["nothing"].as_slice(),
        &["rand-read", "--depths", "257"],
        &["rand-read", "--batches", "0"],
    ] {
        let (code, errors) = run(&mut iobench(arguments, folder.path()));
        assert_eq!(code, CANNOT_START, "{errors}");
    }
}
