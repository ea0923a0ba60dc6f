//! The command lines of the program whose figures were published, concurrency-demo-benchmarks, work
//! as they are.

use super::model;
use crate::harness::site;

/// Runs a command line, whose words have no spaces, and returns its output.
#[track_caller]
fn shown(line: &str) -> String {
    let words = line.split_whitespace().map(|word| word.trim_matches('"'));
    let (code, shown, errors) = model(&Vec::from_iter(words), site(&[]).path());
    assert_eq!((code, errors.as_str()), (0, ""), "{line}");
    shown
}

/// Checks the title, and that each figure begins with this.
#[track_caller]
fn check(line: &str, title: &str, figures: &[(&str, &str)]) {
    let shown = shown(line);
    assert!(shown.starts_with(&format!("{title}: ")), "{shown}");
    for (name, expected) in figures {
        let mut lines = shown.lines();
        let cell = lines.find_map(|line| line.strip_prefix(&format!("{name}  ")));
        let cell = cell.map(str::trim).unwrap_or_default();
        assert!(cell.starts_with(expected), "{name} {expected}: {shown}");
    }
}

#[test]
fn the_published_experiments_have_their_figures() {
    check(
        "--name sync_1k_20ms --rate 1000 --num_req 10000 --latency \"20ms*10\" sync --threads 50",
        "sync_1k_20ms",
        &[
            ("rate of successes", "1,000/s"),
            ("successes", "10,000 (100.0 %)"),
        ],
    );
    check(
        "--name async_1k_20ms --rate 1000 --num_req 10000 --latency \"20ms*10\" async",
        "async_1k_20ms",
        &[
            ("rate of successes", "1,000/s"),
            ("latency of successes, p100", "20.0 ms"),
        ],
    );
    check(
        "--name sync_1k_60ms --rate 1000 --num_req 10000 --latency \"60ms*10\" sync --threads 50",
        "sync_1k_60ms",
        &[
            ("rate of successes", "833/s"),
            ("rate std deviation", "4.71/s"),
            ("wait of successes, p50", "990 ms"),
            ("wait of successes, p99", "1.97 s"),
        ],
    );
    check(
        "--name sync_1k_30s --rate 1000 --num_req 8000 --latency \"20ms*9,30s\" sync --threads 50",
        "sync_1k_30s",
        &[
            ("rate of successes", "14.5/s"),
            ("wait of successes, p50", "209 s"),
            ("wait of successes, p99", "446 s"),
        ],
    );
    check(
        "--name async_1k_30s --rate 1000 --num_req 8000 --latency \"20ms*9,30s\" async",
        "async_1k_30s",
        &[
            ("rate of successes", "900/s"),
            ("successes", "7,200 (90.0 %)"),
        ],
    );
}

#[test]
fn latencies_without_a_unit_and_the_path_of_python_are_accepted() {
    check(
        "--name sync_t500_600ms --rate 1000 --num_req 10000 --latency \"600*10\" sync --threads 500",
        "sync_t500_600ms",
        &[
            ("rate of successes", "833/s"),
            ("latency of successes, p0", "600 ms"),
        ],
    );
    check(
        "--name async_30s --rate 1000 --num_req 100000 --latency \"200*9,30000\" --python /usr/bin/python3 async",
        "async_30s",
        &[
            ("rate of successes", "900/s"),
            ("latency of successes, p100", "200 ms"),
        ],
    );
    check(
        "-N async_600ms -r 1000 -n 10000 -p /usr/bin/python3 -l \"600*10\" async",
        "async_600ms",
        &[("rate of successes", "1,000/s")],
    );
}

#[test]
fn options_work_on_both_sides_of_the_subcommand() {
    let after = shown("sync -t 5 -n 10 -r 100 -l 30ms");
    assert_eq!(shown("-n 10 -r 100 -l 30ms sync -t 5"), after);
    // The nearer one counts.
    assert_eq!(shown("-n 99 -r 100 sync -t 5 -l 30ms -n 10"), after);
    let folder = site(&[]);
    let line = ["--json", "a.json", "-n", "10", "async", "--html", "a.html"];
    assert_eq!(model(&line, folder.path()).0, 0);
    assert!(folder.path().join("a.json").exists() && folder.path().join("a.html").exists());
}
