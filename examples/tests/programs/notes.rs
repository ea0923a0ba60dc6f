//! Checks the service of notes on every driver: its answers, its deadline, its metrics, its log and its end;
//! what it prints without a database; and that the chapter of the guide that writes it has its lines.

use std::collections::BTreeSet;
use std::thread;

use ::postgres::{Client, NoTls};
use libtest_mimic::Trial;
use uthread::Driver;

use crate::harness::{Check, Process, example, not_checked, on_each_driver};
use crate::postgres;

/// Maximum number of lines of the service, without blank lines and comments.
const LINES_MAX: usize = 100;

const CHAPTER: &str = include_str!("../../../crates/uthread/src/guide/first_service.md");

const PROGRAM: &str = include_str!("../../examples/notes.rs");

const TABLE: &str = "CREATE TABLE note (id serial PRIMARY KEY, text text NOT NULL)";

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test("the_chapter_writes_the_service", || {
        check_chapter();
        Ok(())
    })];
    trials.push(Trial::test("the_service_says_what_it_lacks", || {
        let lacking = example("notes", None).env_remove("DATABASE").output()?;
        let text = String::from_utf8_lossy(&lacking.stderr);
        assert!(
            !lacking.status.success() && text.contains("set DATABASE"),
            "{text}"
        );
        Ok(())
    }));
    trials.extend(on_each_driver("notes", check));
    trials
}

/// Checks that each line of the chapter's code is one of the program. The first program of the chapter is
/// complete, and compiled as an example of the documentation.
fn check_chapter() {
    let lines = PROGRAM.lines().map(str::trim_start);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    assert!(lines.clone().count() <= LINES_MAX);
    let known: BTreeSet<&str> = lines.collect();
    let blocks = CHAPTER.split("```rust,ignore\n").skip(1);
    let code = blocks.map(|block| block.split_once("```").unwrap().0);
    let shown = code.flat_map(str::lines).map(str::trim_start);
    for line in shown.filter(|line| !line.is_empty()) {
        assert!(known.contains(line), "the example has no line `{line}`");
    }
    assert!(CHAPTER.contains(TABLE));
}

fn check(driver: Driver) -> Check {
    let Some(folder) = postgres::folder() else {
        return not_checked("postgres is not installed".to_owned());
    };
    let server = format!("host={} user=postgres", folder.display());
    let mut client = Client::connect(&server, NoTls).unwrap();
    let create = format!("CREATE DATABASE notes_{driver}");
    client.batch_execute(&create).unwrap();
    let database = format!("{server} dbname=notes_{driver}");
    let mut client = Client::connect(&database, NoTls).unwrap();
    client.batch_execute(TABLE).unwrap();

    let mut command = example("notes", driver.into());
    command
        .env("DATABASE", database)
        .env("LISTEN", "127.0.0.1:0");
    let mut service = Process::start(&mut command, "");
    let line = service.line();
    let url = line.replace("listening on ", "http://");
    let get = |path: &str| ureq::get(format!("{url}{path}")).call();
    let read = |path: &str| get(path).unwrap().body_mut().read_to_string().unwrap();
    let add = |text: &str| {
        let request = ureq::post(format!("{url}/notes")).content_type("application/json");
        let mut response = request.send(format!("\"{text}\""))?;
        response.body_mut().read_to_string()
    };
    assert_eq!(read("/health"), "\"ready\"");
    thread::scope(|scope| {
        for number in 0..50 {
            scope.spawn(move || {
                let text = format!("note {number}");
                let id = add(&text).unwrap();
                assert_eq!(read(&format!("/notes/{id}")), format!("\"{text}\""));
            });
        }
    });
    let status = |result: Result<_, ureq::Error>| result.err().unwrap().to_string();
    assert_eq!(status(get("/notes/none").map(drop)), "http status: 404");
    assert_eq!(
        status(add(&"long".repeat(20_000)).map(drop)),
        "http status: 413"
    );

    let mut transaction = client.transaction().unwrap();
    transaction.batch_execute("LOCK TABLE note").unwrap();
    assert_eq!(status(get("/notes/1").map(drop)), "http status: 504");
    transaction.commit().unwrap();
    assert!(read("/notes/1").starts_with("\"note"));

    let metrics = read("/metrics");
    for line in [
        "http_request_seconds_count{status=\"504\"} 1\n",
        "pool_waiting 0\n",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    service.signal("TERM");
    let log = service.end();
    assert!(log.contains(" GET /notes/1 504 1."), "{log}");
    Check::Completed
}
