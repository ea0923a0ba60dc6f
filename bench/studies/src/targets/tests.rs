//! Each rule against results that keep it, and against the same with one fault.

use super::judge::best;
use super::*;
use crate::results::tests::taken;
use crate::results::{Better, Limit, Metric, Panel, Point, Round, Study, Subject};

const ROUNDS: usize = 7;

/// Returns rounds around a median, which differ by 1 % at most.
fn around(median: f64) -> Vec<Round> {
    let round = |index: usize| taken(&[median * (1.0 + (index as f64 - 3.0) / 300.0)]);
    (0..ROUNDS).map(round).collect()
}

fn cannot() -> Vec<Round> {
    vec![Round::Cannot("no threads".to_owned()); ROUNDS]
}

/// Returns a study of ours and the peers `a` and `b` with one metric. `points`: for each, the rounds of each subject.
fn study(metric: Metric, points: Vec<Vec<Vec<Round>>>) -> Study {
    let numbers: Vec<u32> = (1..=points.len() as u32).map(|point| point * 10).collect();
    let points_of_panel = Point::numbers(&numbers);
    let mut panel = Panel::new("a panel", "connections", points_of_panel, vec![metric]);
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
    let studies = vec![study];
    Box::leak(Box::new(target)).judge(&Results {
        studies,
        ..Results::default()
    })
}

/// Judges one point with these rounds of a CPU time.
#[track_caller]
fn check(beside: &str, goal: &str, rounds: [Vec<Round>; 3], expected: (Outcome, &str, &str)) {
    let target = format!(r#""metric": "CPU", "beside": {{ {beside} }}, "goal": {{ {goal} }}"#);
    let verdict = judge(&target, study(cpu(), vec![rounds.to_vec()]));
    let judged = &verdict.points[0];
    assert_eq!(judged.point, "10 connections");
    let found = (verdict.outcome, &*judged.between, &*judged.note);
    assert_eq!(found, expected, "{target} {:?}", judged.ratio);
}

#[test]
fn the_median_reaches_the_bound_or_misses_it() {
    use Outcome::{Met, Missed};
    let cases = [
        (
            r#""Below": "a""#,
            r#""AtMost": 1.05"#,
            10.4,
            Met,
            "uthread / a",
        ),
        (
            r#""Below": "a""#,
            r#""AtMost": 1.05"#,
            10.6,
            Missed,
            "uthread / a",
        ),
        (
            r#""Below": "a""#,
            r#""AtLeast": 0.95"#,
            9.6,
            Met,
            "uthread / a",
        ),
        (
            r#""Below": "a""#,
            r#""AtLeast": 0.95"#,
            9.4,
            Missed,
            "uthread / a",
        ),
        (
            r#""Above": "a""#,
            r#""AtLeast": 1.3"#,
            7.6,
            Met,
            "a / uthread",
        ),
        (
            r#""Above": "a""#,
            r#""AtLeast": 1.3"#,
            7.8,
            Missed,
            "a / uthread",
        ),
        (r#""Nobody": "us""#, r#""Under": 2.0"#, 1.99, Met, "uthread"),
        (
            r#""Nobody": "us""#,
            r#""Under": 2.0"#,
            2.0,
            Missed,
            "uthread",
        ),
        (r#""Nobody": "us""#, r#""AtMost": 2.0"#, 2.0, Met, "uthread"),
        // Each is as bad as the worst, and the best is chosen by its median.
        (
            r#""Each": ["a", "b"]"#,
            r#""NoMoreThan": 1.0"#,
            9.0,
            Met,
            "uthread / a",
        ),
        (
            r#""Each": ["a", "b"]"#,
            r#""NoMoreThan": 1.0"#,
            11.0,
            Missed,
            "uthread / a",
        ),
        (
            r#""Best": ["a", "b"]"#,
            r#""NoMoreThan": 1.0"#,
            9.0,
            Met,
            "uthread / a",
        ),
        (
            r#""Best": ["b", "a"]"#,
            r#""NoMoreThan": 1.0"#,
            11.0,
            Missed,
            "uthread / a",
        ),
    ];
    for (beside, goal, ours, outcome, between) in cases {
        let rounds = [around(ours), around(10.0), around(20.0)];
        check(beside, goal, rounds, (outcome, between, ""));
    }
}

#[test]
fn no_worse_is_missed_only_by_the_whole_interval() {
    // The median of these is on the wrong side, the interval on both.
    let above = [0.97, 0.98, 0.99, 1.02, 1.03, 1.04, 1.05];
    let below = [0.95, 0.96, 0.97, 0.98, 1.01, 1.02, 1.03];
    let far = [1.01, 1.02, 1.02, 1.02, 1.03, 1.04, 1.05];
    let cases = [
        (r#""NoMoreThan": 1.0"#, [0.8; ROUNDS], Outcome::Met),
        (r#""NoMoreThan": 1.0"#, above, Outcome::Met),
        (r#""NoMoreThan": 1.0"#, far, Outcome::Missed),
        (r#""AtMost": 1.0"#, above, Outcome::Missed),
        (r#""Under": 1.0"#, above, Outcome::Missed),
        (r#""AtLeast": 1.0"#, below, Outcome::Missed),
    ];
    for (goal, ratios, outcome) in cases {
        let ours = ratios.map(|ratio| taken(&[ratio * 10.0])).to_vec();
        let rounds = [ours, vec![taken(&[10.0]); ROUNDS], around(20.0)];
        check(
            r#""Below": "a""#,
            goal,
            rounds,
            (outcome, "uthread / a", ""),
        );
    }
}

#[test]
fn doubt_counts_against_us() {
    use Outcome::{Met, Missed, NotMeasured};
    let few = |median| around(median)[..5].to_vec();
    let flaky = [cannot()[..1].to_vec(), around(9.0)[1..].to_vec()].concat();
    let (ten, twenty, nothing) = (around(10.0), around(20.0), Vec::new());
    let ratio = "uthread / a";
    let cases = [
        (
            [cannot(), ten.clone(), twenty.clone()],
            Missed,
            "",
            "uthread cannot: no threads",
        ),
        (
            [nothing.clone(), ten.clone(), twenty.clone()],
            NotMeasured,
            "",
            "uthread has no figure",
        ),
        (
            [around(9.0), ten.clone(), nothing.clone()],
            NotMeasured,
            ratio,
            "b was not measured",
        ),
        (
            [around(11.0), ten.clone(), nothing],
            Missed,
            ratio,
            "b was not measured",
        ),
        ([around(9.0), ten.clone(), cannot()], Met, ratio, ""),
        ([around(9.0), cannot(), cannot()], NotMeasured, "", ""),
        (
            [few(9.0), few(10.0), few(20.0)],
            NotMeasured,
            ratio,
            "too few rounds to tell",
        ),
        (
            [flaky, ten, twenty],
            Met,
            ratio,
            "uthread failed in 1 of 7 rounds",
        ),
    ];
    for (rounds, outcome, between, note) in cases {
        let (beside, goal) = (r#""Each": ["a", "b"]"#, r#""NoMoreThan": 1.0"#);
        check(beside, goal, rounds, (outcome, between, note));
    }
    // A figure is compared only in the unit of the target.
    let note = "the figure is in us, the target in ns";
    let rounds = [around(0.1), Vec::new(), Vec::new()];
    let expected = (NotMeasured, "", note);
    check(r#""Nobody": "ns""#, r#""AtMost": 120.0"#, rounds, expected);
}

#[test]
fn a_target_holds_at_each_point_or_is_missed() {
    let at = |ours: f64| vec![around(ours), around(10.0), Vec::new()];
    let absent = || vec![Vec::new(); 3];
    let without_figure = Round::Taken {
        figures: vec![None],
        usage: Default::default(),
    };
    let inapplicable = || vec![vec![without_figure.clone(); ROUNDS]; 3];
    let cases = [
        (vec![at(9.0), at(5.0)], Outcome::Met, 2, "10 connections"),
        (
            vec![at(9.0), at(11.0), absent()],
            Outcome::Missed,
            3,
            "20 connections",
        ),
        (
            vec![at(9.0), absent()],
            Outcome::NotMeasured,
            2,
            "20 connections",
        ),
        // Where the metric applies to no subject, there is nothing to judge.
        (
            vec![inapplicable(), at(9.0)],
            Outcome::Met,
            1,
            "20 connections",
        ),
        (vec![inapplicable()], Outcome::NotMeasured, 0, ""),
    ];
    for (points, outcome, judged, worst) in cases {
        let target = r#""metric": "CPU", "beside": { "Below": "a" }, "goal": { "AtMost": 1.0 }"#;
        let verdict = judge(target, study(cpu(), points));
        let at = verdict.worst().map_or("", |judged| &judged.point);
        let found = (verdict.outcome, verdict.points.len(), at);
        assert_eq!(found, (outcome, judged, worst));
    }
}

#[test]
fn a_target_without_results_is_not_measured() {
    let cases = [
        (r#""panel": "a p", "points": ["10"], "metric": "CPU""#, 1),
        (r#""panel": "b", "metric": "CPU""#, 0),
        (r#""points": ["2"], "metric": "CPU""#, 0),
        (r#""metric": "rate""#, 0),
    ];
    for (target, points) in cases {
        let target =
            format!(r#"{target}, "beside": {{ "Below": "a" }}, "goal": {{ "AtMost": 1.0 }}"#);
        let only_peers = vec![vec![Vec::new(), around(1.0), Vec::new()]];
        let verdict = judge(&target, study(cpu(), only_peers));
        let found = (verdict.outcome, verdict.points.len());
        assert_eq!(found, (Outcome::NotMeasured, points), "{target}");
    }
}

#[test]
fn a_limit_that_forbids_the_target_is_named() {
    for (limit, note) in [(110.0, "Little's law is 1.10 times a"), (121.0, "")] {
        let rate = Metric::new("rate", "1/s", Better::More);
        let mut study = study(rate, vec![vec![around(100.0), around(100.0)]]);
        study.panels[0].limits.push(Limit {
            name: "Little's law".to_owned(),
            metric: 0,
            figures: vec![limit],
        });
        let target = r#""metric": "rate", "beside": { "Best": ["a"] }, "goal": { "AtLeast": 1.2 }"#;
        let verdict = judge(target, study);
        assert_eq!(
            (verdict.outcome, &*verdict.points[0].note),
            (Outcome::Missed, note)
        );
    }
}

#[test]
fn the_best_has_the_most_where_the_metric_says_so() {
    let best = |better| {
        let metric = Metric::new("rate", "1/s", better);
        let rounds = vec![vec![around(100.0), around(50.0), around(80.0)]];
        best(&study(metric, rounds).panels[0], 0, 0, 1..3)
    };
    assert_eq!((best(Better::More), best(Better::Less)), (Some(2), Some(1)));
}

#[test]
fn the_targets_are_distinct_and_judge_the_committed_report() {
    let verdicts = super::judge(&crate::results::tests::committed());
    assert_eq!(verdicts.len(), TARGETS.len());
    for (index, verdict) in verdicts.iter().enumerate() {
        let (what, points) = (&verdict.target.what, &verdict.points);
        assert!(
            !points.is_empty() && verdict.target.goal.bound() > 0.0,
            "{what}"
        );
        assert!(
            TARGETS[..index].iter().all(|other| other.what != *what),
            "{what}"
        );
    }
}
