//! A refusal is one line, and exit code 2.

use std::path::Path;
use std::process::Command;

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
    refused(command.arg("--json").arg(json), "there is no folder for");
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

#[test]
fn wrong_usage_is_refused() {
    let folder = folder();
    for arguments in [
        ["nothing"].as_slice(),
        &["rand-read", "--depths", "257"],
        &["rand-read", "--mib", "0"],
    ] {
        let (code, errors) = run(&mut iobench(arguments, folder.path()));
        assert_eq!(code, CANNOT_START, "{errors}");
    }
}
