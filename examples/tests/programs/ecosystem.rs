//! Checks the output of the examples on every driver, and their length.

use std::fs;
use std::path::Path;

use libtest_mimic::Trial;
use uthread::Driver;

use crate::harness::{Check, example, is_installed, not_checked, on_each_driver, run};
use crate::postgres;

/// Maximum number of lines of an example, without blank lines and comments: short enough to read at
/// once.
const LINES_MAX: usize = 65;

/// A server that the tests start. Other programs are started by the example.
const POSTGRES: &str = "postgres";

/// An example, the system program that it needs, and its output.
const EXAMPLES: [(&str, Option<&str>, &str); 16] = [
    (
        "csv_rows",
        None,
        "cellar: 2000 readings, 5.59 degrees on average\n\
         roof, south side: 2000 readings, 10.59 degrees on average\n\
         the \"warm\" room: 2000 readings, 15.59 degrees on average\n",
    ),
    (
        "gzip",
        None,
        "20000 lines: 1028890 bytes were 57364 on the connection\n",
    ),
    (
        "http_heads",
        None,
        "HTTP/1.1 204 Some(\"/a\") and 1 fields\r\n\
         HTTP/1.1 204 Some(\"/b\") and 0 fields\r\n\
         HTTP/1.1 400 invalid token\r\n",
    ),
    (
        "connection_pool",
        None,
        "100 clients, sum 4950, at most 4 connections at once\n",
    ),
    ("shared_stream", None, "all events were written\n"),
    (
        "json_stream",
        None,
        "40 clients, each 100 questions and the right answers\n",
    ),
    (
        "postgres_async",
        Some(POSTGRES),
        "20 fibers, 1000 rows, sum 499500\n",
    ),
    (
        "postgres_blocking",
        Some(POSTGRES),
        "8 clients beside a fiber that sleeps\n",
    ),
    (
        "redis_client",
        Some("redis-server"),
        "counted to 1000 in 20 clients\n",
    ),
    (
        "tar_stream",
        None,
        "6 files with 3001537 bytes went over and are the same\n",
    ),
    (
        "tls",
        Some("curl"),
        "rustls, TLSv1_3: a page from a fiber\n\
         curl: a page from a fiber\n",
    ),
    (
        "tokio_client",
        None,
        "20 clients, 1000 answers\na deadline ended the wait for a task\n",
    ),
    (
        "interposed",
        None,
        "50 clients and servers at once on few threads\n",
    ),
    (
        "redis_interposed",
        Some("redis-server"),
        "50 clients waited at once on few threads\n",
    ),
    (
        "postgres_interposed",
        Some(POSTGRES),
        "50 queries at once on few threads\n",
    ),
    ("websocket", None, "50 clients, 1000 echoes\n"),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test("the_examples_are_short", || {
        EXAMPLES.iter().for_each(|(name, ..)| check_length(name));
        Ok(())
    })];
    for (name, program, prints) in EXAMPLES {
        trials.extend(on_each_driver(name, move |driver| {
            check(name, program, prints, driver)
        }));
    }
    trials
}

fn check(name: &str, program: Option<&str>, prints: &str, driver: Driver) -> Check {
    let mut example = example(name, driver.into());
    let is_there = match program {
        Some(POSTGRES) => postgres::folder()
            .map(|folder| example.arg(folder))
            .is_some(),
        Some(program) => is_installed(program),
        None => true,
    };
    if let Some(program) = program.filter(|_| !is_there) {
        return not_checked(format!("{program} is not installed"));
    }
    assert_eq!(run(&mut example, ""), prints);
    Check::Completed
}

fn check_length(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let text = fs::read_to_string(folder.join(name).with_extension("rs")).unwrap();
    let lines = text.lines().map(str::trim_start);
    let count = lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count();
    assert!(count <= LINES_MAX, "{name} has {count} lines");
}
