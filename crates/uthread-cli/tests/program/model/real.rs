//! `--real` runs the scenario on each driver, beside the model. Counts are exact, and times have
//! wide bounds: the machine may be busy.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::model;
use crate::harness::{command, site};

/// Calls of 100 ms, of which one in ten times out after a second.
const SCENARIO: &str = "requests = 200
arrivals = { kind = \"leaky-bucket\", rate = 100 }
dependencies = [{ latency = \"100ms*9,30s\", timeout = \"1s\" }]
sync = { threads = 30 }
async = {}
";

/// Returns a figure of the deviations, by its name.
fn figure<'a>(run: &'a Value, name: &str) -> &'a Value {
    let mut figures = run["figures"].as_array().unwrap().iter();
    figures.find(|figure| figure["figure"] == name).unwrap()
}

#[test]
fn model_and_reality_are_side_by_side() {
    let folder = site(&[("mine.toml", SCENARIO)]);
    let arguments = [
        "mine.toml",
        "--real",
        "--json",
        "a.json",
        "--html",
        "a.html",
    ];
    let (code, shown, errors) = model(&arguments, folder.path());
    assert_eq!(code, 0, "{errors}");
    assert!(
        errors.starts_with("threads: a real run of about 3 s\n"),
        "{errors}"
    );
    let json = std::fs::read_to_string(folder.path().join("a.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let page = std::fs::read_to_string(folder.path().join("a.html")).unwrap();
    let real = &json[0]["real"];
    let missing = real["missing"].as_array().unwrap().len();
    let runs = real["deviations"].as_array().unwrap();
    let outcomes = real["outcomes"].as_array().unwrap();
    // Containers may forbid io_uring.
    assert_eq!((runs.len(), outcomes.len()), (3 - missing, 3 - missing));
    assert!(missing <= 1, "{shown}");
    for (run, outcome) in runs.iter().zip(outcomes) {
        let driver = run["driver"].as_str().unwrap();
        assert_eq!(
            (&outcome["measured"]["driver"], &run["scale"]),
            (&run["driver"], &Value::from(1.0))
        );
        assert_eq!(outcome["succeeded"], 180, "{driver}");
        assert_eq!(outcome["failed"][0]["requests"], 20, "{driver}");
        assert_eq!(figure(run, "success")["error"], 0.0, "{driver}");
        for name in ["rate with start and end", "latency p50"] {
            let figure = figure(run, name);
            let error = figure["error"].as_f64().unwrap();
            assert!(error.abs() < 0.5, "{driver}: {figure}");
        }
        // No clock is ahead of a call.
        assert!(figure(run, "latency p0")["error"].as_f64().unwrap() > -0.001);
        let label = format!("{driver}, real");
        assert!(shown.contains(&label), "{shown}");
        // A column, and a curve in each plot.
        assert!(page.matches(&label).count() >= 9, "{driver}");
        assert!(shown.contains(&format!(
            "\n{driver}, real: all times were as in the scenario.\n"
        )));
    }
    assert!(page.contains("uthread model mine.toml --real"), "{page}");
    assert_eq!(page.matches("</table>").count(), 2);
    let mut lines = shown.lines();
    let head = "reality against the model     threads";
    assert!(lines.any(|line| line.starts_with(head)), "{shown}");
    let row = "latency of successes, p99.9   ";
    assert!(lines.any(|line| line.starts_with(row)), "{shown}");
}

#[test]
fn the_scale_divides_times() {
    let begin = Instant::now();
    let arguments = [
        "async", "--real", "--scale", "10", "-n", "100", "-l", "30s,10s",
    ];
    let (code, shown, errors) = model(&arguments, site(&[]).path());
    assert_eq!(code, 0, "{errors}");
    let title = "async --num_req 100 --rate 1000 --latency '30s,10s' --real --scale 10: ";
    assert!(shown.starts_with(title), "{shown}");
    let elapsed = begin.elapsed();
    // The calls that fail take 3 s each time, all at once; the others have 10 s by the scenario.
    assert!(elapsed.as_secs() >= 3, "{elapsed:?}");
    assert!(shown.contains("epoll, real: all times were divided by 10, and the results are multiplied by it.\n  50 failed"), "{shown}");
    let median = shown
        .lines()
        .find(|line| line.starts_with("latency of successes, p50"))
        .unwrap();
    // By the clock it would be ten times as much or a tenth of it; a busy machine adds some.
    let seconds = median
        .split("  ")
        .filter_map(|cell| cell.trim().split(' ').next()?.parse::<f64>().ok());
    let are_scaled = seconds.filter(|seconds| (10.0..30.0).contains(seconds));
    assert!(are_scaled.count() >= 2, "{shown}");
}

#[test]
fn too_few_open_files_are_named_before_the_run() {
    let script = "ulimit -n 300; exec \"$0\" model async --real -n 1000 -r 10000 -l 10s";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script]).arg(command(&[]).get_program());
    let output = shell.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    let expected = "2200 open files are needed, but the limit is 300";
    let last = errors.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("uthread: ") && last.contains(expected),
        "{errors}"
    );
}

#[test]
fn an_interrupt_ends_a_run() {
    let mut command = command(&[
        "model", "sync", "--real", "-n", "1000", "-r", "100", "-l", "1s",
    ]);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.starts_with("threads: a real run"), "{line}");
    assert_eq!(child.try_wait().unwrap(), None);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(2), "{status}");
}
