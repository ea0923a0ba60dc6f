//! Both services have their figures, on the terminal, as JSON and on the page.

use serde_json::Value;

use super::model;
use crate::harness::{check_facts, site};

/// The output of `uthread model slower`, in which nothing is random.
const SLOWER: &str = "\
slower dependency: 10,000 requests at 1,000/s, seed 0
Calls take 60 ms instead of 20 ms: 50 threads are no longer enough, and the queue grows as long as requests arrive.

                                      sync, 50 threads     async
rate of successes                     833/s                1,000/s
rate std deviation                    4.71/s               0.00/s
rate with start and end               830/s                994/s
successes                             10,000 (100.0 %)     10,000 (100.0 %)
latency of successes, p0              60.0 ms              60.0 ms
";

#[test]
fn a_scenario_is_a_table_with_both_services() {
    let folder = site(&[]);
    let (code, shown, errors) = model(&["slower"], folder.path());
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(shown.starts_with(SLOWER), "{shown}");
    for line in [
        "wait of successes, p50                990 ms               0",
        "wait of successes, p99                1.97 s               0",
        "by Little's law                       60.0                 60.0",
        "sync, 50 threads: The 50 threads limit it: a request holds one for 60.0 ms, so they allow 833/s; 1,000/s arrive and need 60.0.",
        "async: Nothing limits it: at most 60 requests in progress.",
    ] {
        assert!(
            shown.lines().any(|shown| shown.starts_with(line)),
            "{line}: {shown}"
        );
    }
}

#[test]
fn the_options_describe_a_scenario() {
    let folder = site(&[]);
    let arguments = [
        "-n",
        "8000",
        "-r",
        "1000",
        "-l",
        "20ms*9,30s",
        "-N",
        "my title",
    ];
    let (code, shown, _) = model(&[&["async"][..], &arguments].concat(), folder.path());
    assert_eq!(code, 0);
    assert!(
        shown.starts_with("my title: 8,000 requests at 1,000/s, seed 0\n"),
        "{shown}"
    );
    assert!(
        shown.contains("successes                             7,200 (90.0 %)"),
        "{shown}"
    );
    assert!(
        shown.contains("\n  800 failed: a call failed or took too long.\n"),
        "{shown}"
    );
    let (code, shown, _) = model(&["sync", "-t", "5", "-n", "10"], folder.path());
    assert_eq!(code, 0);
    let title = "sync --threads 5 --num_req 10 --rate 1000 --latency '20ms*10': 10 requests";
    assert!(shown.starts_with(title), "{shown}");
}

#[test]
fn json_and_page_have_all_scenarios_over_time() {
    let folder = site(&[]);
    let arguments = ["outage", "bursts", "--json", "a.json", "--html", "a.html"];
    let (code, _, errors) = model(&arguments, folder.path());
    assert_eq!((code, errors.as_str()), (0, ""));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("a.json")).unwrap();
    let page = read("a.html");
    assert!(page.starts_with("<!doctype html>"));
    assert_eq!(json.as_array().unwrap().len(), 2);
    for scenario in json.as_array().unwrap() {
        let name = scenario["name"].as_str().unwrap();
        assert!(page.contains(name), "{name}");
        let outcomes = scenario["outcomes"].as_array().unwrap();
        assert_eq!(outcomes.len(), 2);
        for (outcome, mode) in outcomes.iter().zip(["sync", "async"]) {
            assert_eq!(outcome["mode"], mode);
            let requests = outcome["requests"].as_u64().unwrap();
            let intervals = outcome["series"]["intervals"].as_array().unwrap();
            let arrived = intervals
                .iter()
                .map(|interval| interval["arrived"].as_u64());
            assert_eq!(arrived.sum::<Option<u64>>(), Some(requests), "{name}");
            assert_eq!(outcome["percentiles"].as_array().unwrap().len(), 9);
        }
    }
    assert_eq!(
        page.matches("<svg").count(),
        12,
        "six plots of each scenario"
    );
    assert_eq!(page.matches("</table>").count(), 2);
}

#[test]
fn a_printed_scenario_runs() {
    let folder = site(&[]);
    let (code, text, _) = model(&["print", "fast"], folder.path());
    assert_eq!(code, 0);
    std::fs::write(folder.path().join("mine.toml"), text).unwrap();
    let (_, expected, _) = model(&["fast"], folder.path());
    let (code, shown, _) = model(&["mine.toml"], folder.path());
    assert_eq!((code, shown), (0, expected));
}

#[test]
fn a_task_queue_may_have_a_cost() {
    let folder = site(&[]);
    let arguments = ["sync", "-r", "2000", "-n", "20000", "--queue-cost", "501us"];
    let (code, shown, _) = model(&arguments, folder.path());
    assert_eq!(code, 0);
    let expected = "The task queue limits it: 501 us for each request allow 1,996/s";
    assert!(shown.contains(expected), "{shown}");
    assert!(shown.contains("--queue-cost 501us"), "{shown}");
}

#[test]
fn all_listed_scenarios_run() {
    let folder = site(&[]);
    let (code, list, _) = model(&["list"], folder.path());
    let names = Vec::from_iter(list.lines().filter_map(|line| line.split(' ').next()));
    assert_eq!((code, names.len()), (0, 18), "{list}");
    let (code, shown, errors) = model(&names, folder.path());
    assert_eq!((code, errors.as_str()), (0, ""));
    for line in list.lines() {
        let about = line.split_once("  ").unwrap().1.trim();
        assert!(shown.contains(about), "{about}: {shown}");
    }
}

#[test]
fn a_pool_takes_the_memory_of_all_its_threads() {
    let folder = site(&[]);
    let arguments = ["sync", "-t", "1000000", "-n", "10"];
    let (code, shown, _) = model(&arguments, folder.path());
    assert_eq!(code, 0);
    let memory = shown
        .lines()
        .find(|line| line.starts_with("memory, resident "));
    assert!(
        memory.is_some_and(|line| line.ends_with("23,438 MiB")),
        "{shown}"
    );
    // The only latency has no deviation, and no percentile beside it.
    for line in ["p0", "p100", "mean"] {
        let mut lines = shown.lines();
        let line = lines.find(|shown| shown.starts_with(&format!("latency of successes, {line} ")));
        assert!(
            line.is_some_and(|line| line.ends_with(" 20.0 ms")),
            "{shown}"
        );
    }
    assert!(
        shown.contains("latency of successes, std deviation   0\n"),
        "{shown}"
    );
}

/// With even arrivals 23 threads are enough for what 25 are at random.
#[test]
fn a_plan_is_for_the_arrivals_that_there_are() {
    let folder = site(&[("mine.toml", SCENARIO)]);
    let fewest = |arguments: &[&str]| -> u64 {
        let arguments = [&["plan", "--p99", "25ms"], arguments].concat();
        let (code, shown, errors) = model(&arguments, folder.path());
        assert_eq!((code, errors.as_str()), (0, ""));
        let verdict = shown.lines().find(|line| line.contains("keep p99 within"));
        let number = verdict.and_then(|line| line.split(' ').next());
        number.and_then(|number| number.parse().ok()).expect(&shown)
    };
    let even = fewest(&["-l", "20ms"]);
    let random = fewest(&["-l", "20ms", "--arrivals", "poisson"]);
    assert_eq!(even, 20);
    assert!(random > 22, "{random}");
    assert_eq!(fewest(&["mine.toml"]), random);
}

/// The same load as by the options.
const SCENARIO: &str = "
name = \"mine\"
requests = 10000
arrivals = { kind = \"poisson\", rate = 1000 }
dependencies = [{ latency = \"20ms\" }]
async = {}
";

#[test]
fn a_plan_names_the_fewest_threads() {
    let folder = site(&[]);
    let arguments = [
        "plan", "--p99", "61ms", "-l", "60ms", "--html", "a.html", "--json", "a.json",
    ];
    let (code, shown, errors) = model(&arguments, folder.path());
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(
        shown.contains("\n60 threads keep p99 within 61.0 ms, in "),
        "{shown}"
    );
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("a.json")).unwrap();
    assert_eq!(json["fewest"], 60);
    let page = read("a.html");
    assert!(page.contains("60 threads keep p99 within") && page.matches("<svg").count() == 2);
    assert!(
        page.contains("<dt>seed</dt> <dd>0"),
        "the seed of the calls"
    );
    let command = "uthread model plan --p99 61ms -l 60ms --html a.html --json a.json";
    check_facts(&page, command);
}
