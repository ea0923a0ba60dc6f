//! Every scenario and every technique has its figures, on the terminal, as JSON and on the page.

use serde_json::Value;

use crate::harness::check_facts;

use super::{folder, iobench, is_empty, is_skipped, read_json, run};

/// The scenarios that measure, and a metric of each.
const SCENARIOS: [(&str, &str); 9] = [
    ("syscall-overhead", "calls per I/O"),
    ("lat-iops", "IOPS"),
    ("rand-read", "lat p50"),
    ("multi-4thr", "IOPS"),
    ("cpu-footprint", "max RSS"),
    ("mixed", "write IOPS"),
    ("kv", "puts"),
    ("urgent-reads", "lat avg"),
    ("urgent-echoes", "rivals"),
];

/// Checks that every measured subject has a figure of a metric above zero at each point. Returns
/// their names.
pub(super) fn measured<'a>(study: &'a Value, metric: &str) -> Vec<&'a str> {
    let panel = &study["panels"][0];
    let metrics = panel["metrics"].as_array().unwrap();
    let mut metrics = metrics
        .iter()
        .map(|metric| metric["name"].as_str().unwrap());
    let metric = metrics.position(|name| name == metric).unwrap();
    let mut names = Vec::new();
    for (index, subject) in study["subjects"].as_array().unwrap().iter().enumerate() {
        let name = subject["name"].as_str().unwrap();
        if let Some(reason) = subject["missing"].as_str() {
            println!("{name}: {reason}");
            continue;
        }
        for point in panel["rounds"].as_array().unwrap() {
            let rounds = point[index].as_array().unwrap();
            assert_eq!(rounds.len(), 1, "{name}");
            let figure = &rounds[0]["Taken"]["figures"][metric];
            let is_unknown = figure.is_null() && name.starts_with("fio");
            assert!(
                is_unknown || figure.as_f64() > Some(0.0),
                "{name}: {rounds:?}"
            );
        }
        names.push(name);
    }
    names
}

#[test]
fn every_scenario_has_its_figures() {
    let (disk, output) = (folder(), folder());
    let (json, html) = (output.path().join("a.json"), output.path().join("a.html"));
    let names: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
    let mut command = iobench(&names, disk.path());
    command.args([
        "--depths",
        "1,4",
        "--only",
        "pread,ring,uthread,uthread with priorities",
    ]);
    command.arg("--json").arg(&json).arg("--html").arg(&html);
    let (code, errors) = run(&mut command);
    if is_skipped(code, &errors) {
        return;
    }
    assert_eq!(code, 0, "{errors}");
    assert!(errors.contains(" left] "), "{errors}");
    assert!(is_empty(disk.path()));
    let results = read_json(&json);
    let studies = results["studies"].as_array().unwrap();
    assert_eq!(studies.len(), SCENARIOS.len());
    let page = std::fs::read_to_string(html).unwrap();
    for (study, (name, metric)) in studies.iter().zip(SCENARIOS) {
        assert_eq!(study["name"], name);
        let names = measured(study, metric);
        assert!(
            names.contains(&"pread") || ["kv", "urgent-reads", "urgent-echoes"].contains(&name),
            "{name}: {names:?}"
        );
        // The latencies at both depths, where there are enough. Urgent requests are one of eight.
        let plots = if name.starts_with("urgent") { 0 } else { 2 };
        let drawn = study["plots"].as_array().map_or(0, Vec::len);
        assert_eq!(drawn, plots, "{name}");
        assert!(page.contains(study["title"].as_str().unwrap()), "{name}");
    }
    let note = "lat p99.9</code>, which fewer than 10 requests of a measurement exceed.";
    assert!(page.contains(note), "64 requests have a 99.9th percentile");
    let facts = studies[0]["facts"].to_string();
    for part in [
        "disk",
        "kernel",
        "1 round with 64 requests of each technique, seed 1",
    ] {
        assert!(facts.contains(part), "{part}: {facts}");
    }
    check_facts(&page, "uthread iobench --mib 1 --blocks 64 ");
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"));
}

#[test]
fn every_technique_has_its_figures() {
    let (disk, output) = (folder(), folder());
    let json = output.path().join("a.json");
    let mut command = iobench(&["rand-read", "--depths", "8"], disk.path());
    let (code, errors) = run(command.arg("--json").arg(&json));
    if is_skipped(code, &errors) {
        return;
    }
    assert_eq!(code, 0, "{errors}");
    let results = read_json(&json);
    let names = measured(&results["studies"][0], "IOPS");
    for always in [
        "pread",
        "thread pool",
        "POSIX AIO",
        "uthread epoll",
        "uthread threads",
    ] {
        assert!(names.contains(&always), "{names:?}");
    }
}

#[test]
fn a_planted_corruption_is_found() {
    let disk = folder();
    let path = disk.path().join("blocks");
    let mut bytes = Vec::new();
    for block in 0..64_u64 {
        bytes.extend(block.to_le_bytes());
        bytes.resize((block as usize + 1) * 4096 - 8, 7);
        bytes.extend((!block).to_le_bytes());
    }
    let job = |technique: &str| {
        serde_json::json!({
            "technique": technique, "files": [&path], "pattern": "Sequential", "requests": 64, "depth": 4,
            "is_batched": false, "seed": 1,
        })
        .to_string()
    };
    let perform =
        |technique: &str| run(crate::harness::command(&["iobench", "--job"]).arg(job(technique)));
    for technique in ["Pread", "Ring", "Fibers"] {
        std::fs::write(&path, &bytes).unwrap();
        let (code, errors) = perform(technique);
        if code != 0 && !errors.contains("corrupted") {
            println!("{technique} is not tested here: {errors}");
            continue;
        }
        assert_eq!(code, 0, "{errors}");
        let mut corrupted = bytes.clone();
        corrupted[40 * 4096] ^= 1;
        std::fs::write(&path, &corrupted).unwrap();
        let (code, errors) = perform(technique);
        assert_eq!(code, 1, "{technique}");
        assert!(errors.contains("block 40 is corrupted"), "{errors}");
    }
}
