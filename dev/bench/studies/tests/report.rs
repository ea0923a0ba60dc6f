//! The command `report` and the files in its folder. No subject is chosen, so that it takes no
//! time.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Runs a report of no subjects. Returns its exit code and its errors.
fn report(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uthread-bench"));
    command
        .args(["report", "--only", "nobody", "--output"])
        .arg(folder);
    // The end of a pipe without a reader, which does not end the report.
    command.args(arguments).stdout(io::pipe().unwrap().1);
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), errors)
}

/// Returns a study with one measurement or none.
fn study(name: &str, has_measurement: bool) -> Value {
    let taken = json!({ "Taken": { "figures": [7.0] } });
    let rounds = if has_measurement { vec![taken] } else { vec![] };
    let panel = json!({
        "title": "", "axis": "", "points": [{ "label": "all", "value": null }], "limits": [], "rounds": [[rounds]],
        "metrics": [{ "name": "rate", "unit": "1/s", "better": "More", "is_drawn": true }],
    });
    json!({
        "name": name, "title": format!("The earlier {name}"), "question": "", "facts": [["date", "2026-01-01"]], "notes": [],
        "subjects": [{ "name": "uthread", "is_ours": true, "version": null, "missing": null }], "panels": [panel],
    })
}

/// Returns the titles of these studies in the folder's report.
fn titles<const N: usize>(folder: &Path, names: [&str; N]) -> [String; N] {
    names.map(|name| {
        let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        report["studies"][0]["title"].as_str().unwrap().to_owned()
    })
}

/// Counts the studies in the folder's report.
fn count(folder: &Path) -> usize {
    let files = fs::read_dir(folder).unwrap();
    let ends = files.filter_map(|file| Some(file.unwrap().path().extension()?.to_owned()));
    ends.filter(|end| end == "json").count()
}

#[test]
fn other_studies_stay_until_the_report_is_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, has_measurement) in [("disk", true), ("threads", false), ("echo", true)] {
        let earlier = json!({ "studies": [study(name, has_measurement)] });
        fs::write(folder.join(format!("{name}.json")), earlier.to_string()).unwrap();
    }
    let (code, errors) = report(folder, &["--studies", "compute,threads"]);
    assert_eq!(code, 0, "{errors}");
    let new = ["Echo with work in each answer", "Creating and yielding"];
    let expected = ["The earlier echo", new[0], new[1], "The earlier disk"];
    assert_eq!(
        titles(folder, ["echo", "compute", "threads", "disk"]),
        expected
    );
    let text = fs::read_to_string(folder.join("disk.json")).unwrap();
    let line = "        {\"Taken\": {\"figures\": [7.0]}}";
    assert!(
        text.lines().any(|found| found == line),
        "a line for each measurement: {text}"
    );
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    let place = |title: &str| page.find(&format!("<h2>{title}</h2>")).unwrap();
    assert!(expected.map(place).is_sorted());
    assert!(
        !folder.join("journal.json").exists(),
        "the journal of a finished report is left"
    );

    assert_eq!(report(folder, &["--studies", "compute", "--anew"]).0, 0);
    assert_eq!(
        (count(folder), titles(folder, ["compute"])),
        (1, [new[0].to_owned()])
    );
}

#[test]
fn a_file_that_is_no_report_or_journal_is_not_overwritten() {
    let other_build =
        r#"{ "settings": { "program": "0", "seconds": 1 }, "studies": [], "found": {} }"#;
    let cases = [
        ("echo.json", "{ \"studies\": [", "move it away"),
        ("journal.json", other_build, "another build"),
    ];
    for (name, content, reason) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (folder, file) = (folder.path(), folder.path().join(name));
        fs::write(&file, content).unwrap();
        let (code, errors) = report(folder, &["--studies", "compute"]);
        assert!(
            code == 1 && errors.contains(reason) && errors.contains("--anew"),
            "{errors}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
        assert_eq!(report(folder, &["--studies", "compute", "--anew"]).0, 0);
        assert_eq!(count(folder), 1, "the study, and no journal");
    }
}
