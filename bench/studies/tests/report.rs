//! The command `report` and the files in its folder. No subject is chosen, so that it takes no time.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_uthread-bench");

fn report(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(["report", "--only", "nobody", "--output"])
        .arg(folder)
        .args(arguments);
    command
}

/// Returns the end of a pipe without a reader.
fn closed() -> Stdio {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Returns a study with one measurement or none.
fn study(name: &str, has_measurement: bool) -> Value {
    let taken = json!({ "Taken": { "figures": [7.0],
        "usage": { "others_share": 0.0, "steal_share": 0.0, "quiet_before": true } } });
    let rounds = if has_measurement { vec![taken] } else { vec![] };
    json!({
        "name": name, "title": format!("The earlier {name}"), "question": "", "facts": [["date", "2026-01-01"]], "notes": [],
        "subjects": [{ "name": "uthread", "is_ours": true, "version": null, "missing": null }],
        "panels": [{
            "title": "", "axis": "", "points": [{ "label": "all", "value": null }], "limits": [],
            "metrics": [{ "name": "rate", "unit": "1/s", "better": "More", "is_drawn": true }],
            "rounds": [[rounds]],
        }],
    })
}

/// Returns the titles of the studies in the folder's report.
fn titles(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let studies = report["studies"].as_array().unwrap().iter();
    studies
        .map(|study| study["title"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn other_studies_stay_until_the_report_is_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let earlier =
        json!({ "studies": [study("disk", true), study("threads", false), study("echo", true)] });
    fs::write(folder.join("report.json"), earlier.to_string()).unwrap();
    let output = report(folder, &["--studies", "requests,threads"]);
    assert!(output.status.success(), "{output:?}");
    let expected = [
        "The earlier echo",
        "One request by each technique",
        "Creating and yielding",
        "The earlier disk",
    ];
    assert_eq!(titles(folder), expected);
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    let place = |title: &str| page.find(&format!("<h2>{title}</h2>")).unwrap();
    assert!(expected.map(place).is_sorted());
    assert!(!folder.join("journal.json").exists(), "it came to its end");

    let output = report(folder, &["--studies", "requests", "--anew"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(titles(folder), ["One request by each technique"]);
}

#[test]
fn a_file_that_is_no_report_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let json = folder.join("report.json");
    fs::write(&json, "{ \"studies\": [").unwrap();
    let output = report(folder, &["--studies", "requests"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("move it away") && said.contains("--anew"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&json).unwrap(), "{ \"studies\": [");

    let output = report(folder, &["--studies", "requests", "--anew"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(titles(folder).len(), 1);
}

#[test]
fn a_journal_of_another_build_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let journal = folder.join("journal.json");
    let of_another =
        r#"{ "settings": { "program": "0", "seconds": 1 }, "studies": [], "found": {} }"#;
    fs::write(&journal, of_another).unwrap();
    let output = report(folder, &["--studies", "requests"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("another build") && said.contains("--anew"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&journal).unwrap(), of_another);

    let output = report(folder, &["--studies", "requests", "--anew"]);
    assert!(output.status.success(), "{output:?}");
    assert!(!journal.exists());
}

#[test]
fn a_closed_pipe_does_not_end_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path(), &["--studies", "requests"]);
    let status = command.stdout(closed()).stderr(closed()).status().unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(titles(folder.path()).len(), 1);

    // An error stays one, whether or not its message is read.
    fs::write(folder.path().join("report.json"), "{").unwrap();
    let status = command.stdout(closed()).stderr(closed()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}
