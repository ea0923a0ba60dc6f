//! Each rule against results that keep it, and against the same with one fault. `tests.json` has
//! the cases.

use serde::de::DeserializeOwned;
use uthread_report::results::{Better, Limit, Metric, Panel, Point, Round, Study, Subject};

use super::judge::best;
use super::*;
use crate::report;
use crate::sample::{committed, taken};

const ROUNDS: usize = 7;

fn cases<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let mut all: serde_json::Value = serde_json::from_str(include_str!("tests.json")).unwrap();
    serde_json::from_value(all[name].take()).unwrap()
}

/// Returns the rounds that a word describes: around a median (by 1 % at most), `few` or `flaky`
/// ones, `cannot`, `inapplicable`.
fn rounds(words: &str) -> Vec<Round> {
    let around = |median: &str| -> Vec<Round> {
        let median: f64 = median.parse().unwrap();
        let round = |index: usize| taken(&[median * (1.0 + (index as f64 - 3.0) / 300.0)]);
        (0..ROUNDS).map(round).collect()
    };
    let cannot = || Round::Cannot("no threads".to_owned());
    let without_figure = || Round::Taken {
        figures: vec![None],
        was_disturbed: false,
    };
    match words.split(' ').collect::<Vec<_>>()[..] {
        [""] => Vec::new(),
        ["cannot"] => vec![cannot(); ROUNDS],
        ["inapplicable"] => vec![without_figure(); ROUNDS],
        ["few", median] => around(median)[..5].to_vec(),
        ["flaky", median] => [&[cannot()], &around(median)[1..]].concat(),
        [median] => around(median),
        _ => panic!("{words}"),
    }
}

/// Returns a study of ours and the peers `a` and `b` with one metric. `points`: for each, the
/// rounds of each subject.
fn study(metric: Metric, points: Vec<Vec<Vec<Round>>>) -> Study {
    let numbers: Vec<u32> = (1..=points.len() as u32).map(|point| point * 10).collect();
    let metrics = vec![metric];
    let mut panel = Panel::new("a panel", "connections", Point::numbers(&numbers), metrics);
    panel.rounds = points;
    let peer = |name| Subject::peer(name, None, None);
    let subjects = vec![Subject::ours(OURS), peer("a"), peer("b")];
    Study::new(["s", "", ""], Vec::new(), subjects, vec![panel])
}

fn cpu() -> Metric {
    Metric::new("CPU", "us", Better::Less)
}

/// Judges a target given as JSON, without its study and its words.
fn judge(target: &str, study: Study) -> Verdict {
    let target = format!(r#"{{ "what": "", "study": "s", {target} }}"#);
    let target: Target = serde_json::from_str(&target).unwrap();
    let results = Results {
        studies: vec![study],
    };
    Box::leak(Box::new(target)).judge(&results)
}

/// Judges one point with these rounds of a CPU time.
#[track_caller]
fn check(beside: &str, goal: &str, rounds: [Vec<Round>; 3], expected: [&str; 3]) {
    let target = format!(r#""metric": "CPU", "beside": {{ {beside} }}, "goal": {{ {goal} }}"#);
    let verdict = judge(&target, study(cpu(), vec![rounds.to_vec()]));
    let judged = &verdict.points[0];
    assert_eq!(judged.point, "10 connections");
    let found = [verdict.outcome.name(), &judged.between, &judged.note];
    assert_eq!(found, expected, "{target} {:?}", judged.ratio);
}

#[test]
fn the_median_reaches_the_bound_or_misses_it() {
    type Case = (String, String, f64, String, String);
    for (beside, goal, ours, outcome, between) in cases::<Case>("medians") {
        let rounds = [rounds(&ours.to_string()), rounds("10"), rounds("20")];
        check(&beside, &goal, rounds, [&outcome, &between, ""]);
    }
}

#[test]
fn a_target_is_missed_by_the_whole_interval_and_not_met_by_a_wide_one() {
    for (goal, ratios, outcome) in cases::<(String, Vec<f64>, String)>("intervals") {
        let ours = ratios.iter().map(|ratio| taken(&[ratio * 10.0])).collect();
        let rounds = [ours, vec![taken(&[10.0]); ROUNDS], rounds("20")];
        check(
            r#""Below": "a""#,
            &goal,
            rounds,
            [&outcome, "uthread / a", ""],
        );
    }
}

#[test]
fn doubt_counts_against_us() {
    for words in cases::<[String; 6]>("doubts") {
        let [ours, a, b, outcome, between, note] = words.each_ref().map(String::as_str);
        let (beside, goal) = (r#""Each": ["a", "b"]"#, r#""AtMost": 1.0"#);
        check(
            beside,
            goal,
            [ours, a, b].map(rounds),
            [outcome, between, note],
        );
    }
    let expected = ["not measured", "", "the figure is in us, the target in ns"];
    check(
        r#""Nobody": "ns""#,
        r#""AtMost": 120.0"#,
        ["0.1", "", ""].map(rounds),
        expected,
    );
}

#[test]
fn a_target_may_name_another_subject_as_ours() {
    for (bound, outcome) in [(0.5, Outcome::Met), (0.4, Outcome::Missed)] {
        let goal = format!(r#"{{ "AtMost": {bound} }}"#);
        let target = format!(
            r#""metric": "CPU", "subject": "a", "beside": {{ "Below": "b" }}, "goal": {goal}"#
        );
        let verdict = judge(
            &target,
            study(cpu(), vec![["", "10", "20"].map(rounds).to_vec()]),
        );
        let found = (verdict.outcome, &*verdict.points[0].between);
        assert_eq!(found, (outcome, "a / b"));
    }
}

#[test]
fn a_target_holds_at_each_point_or_is_missed() {
    for (ours, outcome, judged, worst) in cases::<(Vec<String>, String, usize, String)>("points") {
        let peer = |ours: &str| match ours {
            "" | "inapplicable" => rounds(ours),
            _ => rounds("10"),
        };
        let points = ours
            .iter()
            .map(|ours| vec![rounds(ours), peer(ours), peer(ours)]);
        let target = r#""metric": "CPU", "beside": { "Below": "a" }, "goal": { "AtMost": 1.0 }"#;
        let verdict = judge(target, study(cpu(), points.collect()));
        let at = verdict.worst().map_or("", |judged| &judged.point);
        let found = (verdict.outcome.name(), verdict.points.len(), at);
        assert_eq!(found, (&*outcome, judged, &*worst));
    }
}

#[test]
fn a_target_without_results_is_not_measured() {
    for (target, points) in cases::<(String, usize)>("absent") {
        let rest = r#""beside": { "Below": "a" }, "goal": { "AtMost": 1.0 }"#;
        let only_peers = ["", "1", ""].map(rounds).to_vec();
        let verdict = judge(&format!("{target}, {rest}"), study(cpu(), vec![only_peers]));
        let found = (verdict.outcome, verdict.points.len());
        assert_eq!(found, (Outcome::NotMeasured, points), "{target}");
    }
}

#[test]
fn a_limit_that_forbids_the_target_is_named() {
    for (limit, note) in [(110.0, "Little's law is 1.10 times a"), (121.0, "")] {
        let rate = Metric::new("rate", "1/s", Better::More);
        let mut study = study(rate, vec![["100", "100", "80"].map(rounds).to_vec()]);
        assert_eq!(best(&study.panels[0], 0, 0, 1..3), Some(1));
        study.panels[0].limits.push(Limit {
            name: "Little's law".to_owned(),
            metric: 0,
            figures: vec![limit],
        });
        let target = r#""metric": "rate", "beside": { "Best": ["a"] }, "goal": { "AtLeast": 1.2 }"#;
        let verdict = judge(target, study);
        let found = (verdict.outcome, &*verdict.points[0].note);
        assert_eq!(found, (Outcome::Missed, note));
    }
}

#[test]
fn the_targets_are_distinct_and_judge_the_committed_report() {
    let results = committed();
    let verdicts = super::judge(&results);
    assert_eq!(verdicts.len(), TARGETS.len());
    for (index, verdict) in verdicts.iter().enumerate() {
        let what = &verdict.target.what;
        let study = &verdict.target.study;
        assert!(report::order().contains(study), "{what}: no study {study}");
        // The report gets a new study or metric when it is measured, and has no point to judge
        // until then.
        let is_measured = results.study(study).is_some_and(|study| {
            let mut panels = study.panels.iter();
            panels.any(|panel| panel.metric(&verdict.target.metric).is_some())
        });
        let has_points = verdict.points.is_empty() != is_measured;
        let is_known = TARGETS[..index].iter().any(|other| other.what == *what);
        assert!(has_points && !is_known, "{what}");
        let ours = &verdict.target.subject;
        let has_ours = results
            .study(study)
            .is_none_or(|study| study.subject(ours).is_some());
        assert!(has_ours, "{what}: {study} has no {ours}");
    }
}
