//! A refusal is one line that names the place, and has exit code 2.

use std::fs::File;

use super::model;
use crate::harness::{command, site};

/// Checks that the run ends with this code and one line that contains `expected`.
#[track_caller]
fn refused(arguments: &[&str], files: &[(&str, &str)], code: i32, expected: &str) {
    let files = site(files);
    let (found, _, errors) = model(arguments, files.path());
    assert_eq!((found, errors.lines().count()), (code, 1), "{errors}");
    assert!(
        errors.starts_with("uthread: ") && errors.contains(expected),
        "{errors}"
    );
}

#[test]
fn a_wrong_scenario_is_refused_with_line_and_key() {
    let arrivals = "arrivals = { kind = \"poisson\", rate = 10 }\n";
    let check = |lines: &str, expected: &str| {
        let text = format!("{lines}{arrivals}");
        refused(&["mine.toml"], &[("mine.toml", &text)], 2, expected);
    };
    check(
        "requests = 10\nretries = 3\n",
        "mine.toml: line 2: unknown field `retries`, expected one of",
    );
    check(
        "requests = 10\nsync = { threads = 0 }\n",
        "mine.toml: line 2: 0 is not from 1 to 1000000000, in `sync = { threads = 0 }`",
    );
    check(
        "requests = 10\nclient = { timeout = \"soon\" }\n",
        "mine.toml: line 2: \"soon\" is no duration",
    );
    check("requests = 10\n", "mine.toml: there is no service: add");
    check("sync = { threads = 1 }\n", "missing field `requests`");
    check("requests = \n", "mine.toml: line 1: ");
}

#[test]
fn a_missing_scenario_or_file_is_named() {
    refused(
        &["unknown"],
        &[],
        2,
        "no scenario \"unknown\", but fast, slower",
    );
    refused(&["print", "unknown"], &[], 2, "no scenario \"unknown\"");
    refused(&["missing.toml"], &[], 2, "read missing.toml: No such file");
    let samples = &["async", "-l", "file:samples"];
    refused(samples, &[], 2, "read samples: No such file");
    let files = &[("samples", "20ms\nsoon\n")];
    refused(samples, files, 2, "samples:2: \"soon\" is no duration");
    let trace = "requests = 2\narrivals = { kind = \"trace\", file = \"times\" }\nasync = {}\n";
    let files = &[("mine.toml", trace), ("times", "1.5\n1\n")];
    refused(&["mine.toml"], files, 2, "times:2: the time is before");
}

#[test]
fn results_that_cannot_be_written_fail() {
    let arguments = &["fast", "--json", "missing/a.json"];
    refused(arguments, &[], 1, "write missing/a.json: ");
}

#[test]
fn wrong_usage_is_refused() {
    let folder = site(&[]);
    let wrong: [(&[&str], &str); 15] = [
        (&[], "Usage: uthread model <SCENARIO>"),
        (&["sync", "-t", "0"], "0 is not in 1..=1000000000"),
        (&["async", "-r", "0"], "0 is not from 0.001 to 1000000000"),
        (&["async", "-l", "20x"], "\"20x\" is no duration"),
        (
            &["--rate", "5", "fast"],
            "--rate is an option of sync, async and plan, and not of a scenario",
        ),
        (
            &["--name", "x", "list"],
            "--name is an option of sync, async and plan, and not of list",
        ),
        (
            &["fast", "--scale", "2"],
            "--scale is for real runs: add --real",
        ),
        (
            &["fast", "--real", "--scale", "0.5"],
            "\"0.5\" is no number from 1 to 1000",
        ),
        (
            &["--real", "list"],
            "--real is an option of sync, async and scenarios, and not of list",
        ),
        (
            &["--scale", "2", "print", "fast"],
            "--scale is an option of",
        ),
        (&["--real", "plan", "--p99", "1s"], "--real is an option of"),
        (&["-n", "5", "print", "fast"], "--num_req is an option of"),
        (&["async", "-t", "5"], "unexpected argument '-t'"),
        (&["fast", "list"], "no scenario \"list\""),
        (&["print"], "<SCENARIO>"),
    ];
    for (arguments, expected) in wrong {
        let (code, _, errors) = model(arguments, folder.path());
        assert_eq!(code, 2, "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_file_without_an_end_is_refused() {
    let expected = "read /dev/zero: it has more than 200000000 bytes";
    refused(
        &["sync", "-n", "10", "-l", "file:/dev/zero"],
        &[],
        2,
        expected,
    );
}

#[test]
fn results_that_cannot_be_written_are_an_error() {
    for arguments in [&["fast"][..], &["list"], &["print", "fast"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = command(&["model"]);
        let output = command.args(arguments).stdout(full).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(
            errors.contains("cannot write to stdout: No space left"),
            "{errors}"
        );
    }
}
