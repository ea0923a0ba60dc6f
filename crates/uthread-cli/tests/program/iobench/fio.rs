//! `fio` as the reference, by a stand-in that writes what it likes, as `fio` does.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use uthread_iobench::PERCENTILES;

use super::results::measured;
use super::{folder, iobench, is_skipped, read_json, run};

/// Overwrites the first blocks of each file if it is to write, and reports requests.
const OVERWRITES: &str = r#"
case "$*" in *--rw=randrw*)
    for argument; do
        case "$argument" in --filename=*)
            head -c 65536 /dev/zero | dd of="${argument#--filename=}" conv=notrunc status=none || exit 1
        esac
    done
esac
"#;

/// Fails with more than one thread.
const FAILS_IN_THREADS: &str = r#"
case "$*" in *--numjobs=1*) ;; *) echo "fio: too many threads" >&2; exit 1;; esac
"#;
const FAILS: &str = r#"echo "fio: no luck" >&2; exit 1"#;

/// Puts a program `fio` with this body first on the search path of `command`.
fn stand_in(body: &str, command: &mut Command) -> TempDir {
    let percentiles = PERCENTILES.map(|percent| format!("\"{percent:.6}\": 250880"));
    let percentiles = percentiles.join(", ");
    let latency = format!(
        "\"total_ios\": 64, \"runtime\": 5, \"lat_ns\": {{ \"mean\": 2.5, \"stddev\": 0.5, \"percentile\": {{ {percentiles} }} }}"
    );
    let report = format!(
        "{{ \"jobs\": [ {{ \"error\": 0, \"job_runtime\": 5, \"usr_cpu\": 1.0, \"sys_cpu\": 3.0, \"ctx\": 2, \
         \"read\": {{ {latency} }}, \"write\": {{ {latency} }} }} ] }}"
    );
    let version = r#"if [ "$1" = --version ]; then echo fio-0.1; exit; fi"#;
    let script = format!("#!/bin/sh\n{version}\n{body}\necho '{report}'\n");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("fio");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let mut path = folder.path().as_os_str().to_owned();
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    command.env("PATH", path);
    folder
}

#[test]
fn no_technique_verifies_what_fio_writes() {
    let (disk, output) = (folder(), folder());
    let json = output.path().join("a.json");
    let mut command = iobench(&["rand-read", "mixed", "kv", "urgent-reads"], disk.path());
    // The second point reads what the first one has left.
    command.args(["--depths", "1,4", "--only", "pread,uthread,fio psync"]);
    command.arg("--json").arg(&json);
    let _fio = stand_in(OVERWRITES, &mut command);
    let (code, errors) = run(&mut command);
    if is_skipped(code, &errors) {
        return;
    }
    assert_eq!(code, 0, "{errors}");
    assert!(!errors.contains("corrupted"), "{errors}");
    let results = read_json(&json);
    let metrics = ["IOPS", "write IOPS", "puts", "lat avg"];
    for (index, metric) in metrics.into_iter().enumerate() {
        let names = measured(&results["studies"][index], metric);
        assert_eq!(names.contains(&"fio psync"), index < 2, "{names:?}");
    }
}

/// Runs two scenarios with a stand-in for `fio` that has this body, and checks exit code, last
/// lines and the results.
fn lost(body: &str, only: &str, expected: &[&str], measurements: &[usize]) {
    let (disk, output) = (folder(), folder());
    let json = output.path().join("a.json");
    let mut command = iobench(&["rand-read", "kv"], disk.path());
    command.args(["--depths", "1,4", "--only", only]);
    command.arg("--json").arg(&json);
    let _fio = stand_in(body, &mut command);
    let (code, errors) = run(&mut command);
    if is_skipped(code, &errors) {
        return;
    }
    assert_eq!(code, 1, "{errors}");
    let lines: Vec<&str> = errors.lines().collect();
    assert!(lines.ends_with(expected), "{errors}");
    let taken = |study: &Value| {
        let rounds = study["panels"][0]["rounds"].to_string();
        rounds.matches("Taken").count()
    };
    let results = read_json(&json);
    let studies = results["studies"].as_array().unwrap();
    assert_eq!(studies.iter().map(taken).collect::<Vec<_>>(), measurements);
}

#[test]
fn a_scenario_that_lost_measurements_fails_the_run() {
    let some = "uthread: rand-read: 1 of 4 measurements failed: too many threads";
    let none = "kv: nothing was measured: it has none of the techniques of --only";
    lost(FAILS_IN_THREADS, "fio psync,pread", &[some, none], &[3, 0]);
    lost(FAILS_IN_THREADS, "fio psync,uthread", &[some], &[3, 2]);
    let all = "uthread: rand-read: nothing was measured: 2 of 2 measurements failed: no luck";
    lost(FAILS, "fio psync", &[all, none], &[0, 0]);
}

#[test]
fn a_run_without_any_measurement_fails() {
    let (disk, nothing) = (folder(), folder());
    let mut command = iobench(&["lat-iops", "--only", "fio psync"], disk.path());
    let (code, errors) = run(command.env("PATH", nothing.path()));
    if is_skipped(code, &errors) {
        return;
    }
    let reason =
        "uthread: lat-iops: nothing was measured: no technique works here: it is not installed";
    assert_eq!(code, 1, "{errors}");
    assert!(
        errors.lines().last().unwrap().starts_with(reason),
        "{errors}"
    );
    let mut command = iobench(&["kv", "--only", "pread"], disk.path());
    let (code, errors) = run(&mut command);
    let reason = "uthread: kv: nothing was measured: it has none of the techniques of --only";
    assert_eq!(code, 1, "{errors}");
    assert_eq!(errors.lines().last(), Some(reason));
}
