//! `urgent-trace`: the kernel's record of requests with priorities, and of the control.

use super::{folder, iobench, is_skipped, read_json, run};

#[test]
fn batches_with_priorities_pass_the_check_and_others_do_not() {
    let output = folder();
    let json = output.path().join("a.json");
    let mut command = iobench(&["urgent-trace", "--batches", "50"], output.path());
    let (code, errors) = run(command.arg("--json").arg(&json));
    if is_skipped(code, &errors) || errors.contains("no ring") {
        return;
    }
    assert_eq!(code, 0, "{errors}");
    let results = read_json(&json);
    let study = &results["studies"][0];
    let rounds = &study["panels"][0]["rounds"][0];
    let figure = |subject: usize, metric: usize| {
        let figure = &rounds[subject][0]["Taken"]["figures"][metric];
        figure.as_f64().unwrap_or_else(|| panic!("{rounds}"))
    };
    assert_eq!([figure(0, 0), figure(1, 0)], [50.0; 2]);
    assert_eq!(figure(0, 1), figure(1, 1), "the same entries");
    let entries_per_call = figure(0, 1) / figure(0, 3);
    assert!(entries_per_call > 2.0, "{entries_per_call}");
    assert_eq!(figure(0, 2), 0.0);
    assert!(figure(1, 2) > 40.0, "the control: {}", figure(1, 2));
    let plots = study["plots"].as_array().unwrap();
    let notes = study["notes"].to_string();
    if notes.contains("this machine is too slow") {
        eprintln!("not checked: the example, which takes one call on faster machines");
        assert_eq!(plots.len(), 2);
    } else {
        assert_eq!(plots.len(), 3);
        let first_taken = &plots[2]["curves"][0]["points"][0];
        assert_eq!(first_taken, &serde_json::json!([0.0, 11.0]));
        let expected = "the kernel took that one as number 1 with priorities";
        assert!(notes.contains(expected), "{notes}");
        assert!(
            notes.contains("and as number 11 with no priorities (control)"),
            "{notes}"
        );
    }
    let urgent = &plots[0]["curves"][0];
    assert_eq!(urgent["name"], "urgent");
    assert!(!urgent["points"].as_array().unwrap().is_empty());
}
