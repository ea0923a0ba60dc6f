//! Results go where a path leads: to streams of the program, and to what cannot be replaced.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::site;

/// Runs a script of the shell, whose `$0` is the program.
fn shell(script: &str, folder: &Path) -> Output {
    let mut command = Command::new("sh");
    command.args(["-ec", script, env!("CARGO_BIN_EXE_uthread")]);
    command.current_dir(folder).output().unwrap()
}

#[test]
fn streams_of_the_program_are_written_through() {
    let folder = site(&[]);
    let fast = "\"$0\" model fast --json";
    let output = shell(
        &format!(
            "{fast} /dev/stdout >file; {fast} /dev/stdout; {fast} /dev/fd/3 3>other >table; {fast} /dev/stderr >table"
        ),
        folder.path(),
    );
    let [shown, errors] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{errors}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let (table, json) = (read("table"), read("other"));
    serde_json::from_str::<Value>(&json).unwrap();
    let both = format!("{table}{json}");
    assert_eq!(read("file"), both);
    assert_eq!(shown, both);
    assert_eq!(errors, json);
}

#[test]
fn a_mount_point_is_overwritten() {
    let folder = site(&[
        ("a.json", "earlier"),
        ("mounted", "a longer text than before"),
    ]);
    let mounts = "unshare --mount sh -c 'mount --bind mounted a.json";
    if !shell(&format!("{mounts}'"), folder.path()).status.success() {
        eprintln!("skipped: this user may not mount");
        return;
    }
    let script = format!("{mounts}; \"$0\" model fast --html page --json a.json' \"$0\"");
    let output = shell(&script, folder.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("a.json"), "earlier");
    serde_json::from_str::<Value>(&read("mounted")).unwrap();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
}
