//! Each rule against results that keep it, and against the same with one fault planted.

use super::judge::best;
use super::*;
use crate::results::tests::taken;
use crate::results::{Better, Limit, Metric, Panel, Point, Round, Study, Subject};

const ROUNDS: usize = 7;

/// Rounds around a median; they differ by 1 % at most.
fn around(median: f64) -> Vec<Round> {
    let round = |index: usize| taken(&[median * (1.0 + (index as f64 - 3.0) / 300.0)]);
    (0..ROUNDS).map(round).collect()
}

fn cannot() -> Vec<Round> {
    vec![Round::Cannot("no threads".to_owned()); ROUNDS]
}

fn nothing(rounds: usize) -> Vec<Round> {
    let round = Round::Taken {
        figures: vec![None],
        usage: Default::default(),
    };
    vec![round; rounds]
}

/// One metric, and for each point the rounds of each subject.
fn study(subjects: &[&str], metric: Metric, points: Vec<(Point, Vec<Vec<Round>>)>) -> Study {
    let (points, rounds) = points.into_iter().unzip();
    let mut panel = Panel::new("a panel", "connections", points, vec![metric]);
    panel.rounds = rounds;
    let subject = |name: &&str| match *name {
        OURS => Subject::ours(OURS),
        peer => Subject::peer(peer, None, None),
    };
    Study {
        name: "s".to_owned(),
        title: String::new(),
        question: String::new(),
        facts: Vec::new(),
        notes: Vec::new(),
        subjects: subjects.iter().map(subject).collect(),
        panels: vec![panel],
    }
}

fn target(metric: &'static str, beside: Beside, goal: Goal) -> &'static Target {
    Box::leak(Box::new(Target {
        what: "",
        study: "s",
        panel: "",
        points: &[],
        metric,
        beside,
        goal,
    }))
}

fn verdict(target: &'static Target, study: Study) -> Verdict {
    target.judge(&Results {
        studies: vec![study],
        ..Results::default()
    })
}

/// One point, at which ours and the peers `a` and `b` have these rounds of a CPU time.
fn check(beside: Beside, goal: Goal, rounds: [Vec<Round>; 3], expected: (Outcome, &str, &str)) {
    let metric = Metric::new("CPU", "us", Better::Less);
    let study = study(
        &[OURS, "a", "b"],
        metric,
        vec![(Point::number(10.0), rounds.to_vec())],
    );
    let verdict = verdict(target("CPU", beside, goal), study);
    let judged = &verdict.points[0];
    assert_eq!(judged.point, "10 connections");
    let found = (
        verdict.outcome,
        judged.between.as_str(),
        judged.note.as_str(),
    );
    assert_eq!(found, expected, "{beside:?} {goal:?} {:?}", judged.ratio);
}

#[test]
fn the_median_reaches_the_bound_or_misses_it() {
    use Outcome::{Met, Missed};
    let rounds = |ours| [around(ours), around(10.0), around(20.0)];
    let below = |ours, goal, outcome| {
        check(
            Beside::Below("a"),
            goal,
            rounds(ours),
            (outcome, "uthread / a", ""),
        )
    };
    below(10.4, Goal::AtMost(1.05), Met);
    below(10.6, Goal::AtMost(1.05), Missed);
    below(9.6, Goal::AtLeast(0.95), Met);
    below(9.4, Goal::AtLeast(0.95), Missed);
    let above = |ours, outcome| {
        check(
            Beside::Above("a"),
            Goal::AtLeast(1.3),
            rounds(ours),
            (outcome, "a / uthread", ""),
        )
    };
    above(7.6, Met);
    above(7.8, Missed);
    let alone = |ours, goal, outcome| {
        check(
            Beside::Nobody("us"),
            goal,
            rounds(ours),
            (outcome, "uthread", ""),
        )
    };
    alone(1.99, Goal::Under(2.0), Met);
    alone(2.0, Goal::Under(2.0), Missed);
    alone(2.0, Goal::AtMost(2.0), Met);
}

#[test]
fn no_worse_is_missed_only_by_the_whole_interval_and_the_others_by_the_median() {
    let pairs = |ratios: [f64; ROUNDS]| {
        let ours = ratios.map(|ratio| taken(&[ratio * 10.0])).to_vec();
        [ours, vec![taken(&[10.0]); ROUNDS], around(20.0)]
    };
    let check = |goal, ratios, outcome| {
        check(
            Beside::Below("a"),
            goal,
            pairs(ratios),
            (outcome, "uthread / a", ""),
        );
    };
    let no_worse = Goal::NoMoreThan(1.0);
    check(no_worse, [0.8; ROUNDS], Outcome::Met);
    // The median is on the wrong side of these, the interval on both.
    let above = [0.97, 0.98, 0.99, 1.02, 1.03, 1.04, 1.05];
    let below = [0.95, 0.96, 0.97, 0.98, 1.01, 1.02, 1.03];
    check(no_worse, above, Outcome::Met);
    check(Goal::AtMost(1.0), above, Outcome::Missed);
    check(Goal::Under(1.0), above, Outcome::Missed);
    check(Goal::AtLeast(1.0), below, Outcome::Missed);
    check(
        no_worse,
        [1.01, 1.02, 1.02, 1.02, 1.03, 1.04, 1.05],
        Outcome::Missed,
    );
}

#[test]
fn the_worst_of_each_decides_and_the_best_is_chosen_by_its_median() {
    let names: &[&str] = &["a", "b"];
    let rounds = |ours| [around(ours), around(20.0), around(10.0)];
    let each = |ours, outcome| {
        check(
            Beside::Each(names),
            Goal::NoMoreThan(1.0),
            rounds(ours),
            (outcome, "uthread / b", ""),
        )
    };
    each(9.0, Outcome::Met);
    each(11.0, Outcome::Missed);
    let best = |ours, outcome| {
        check(
            Beside::Best(names),
            Goal::NoMoreThan(1.0),
            rounds(ours),
            (outcome, "uthread / b", ""),
        )
    };
    best(9.0, Outcome::Met);
    best(11.0, Outcome::Missed);
}

#[test]
fn more_is_better_where_the_metric_says_so() {
    let rounds = vec![around(100.0), around(50.0), around(80.0)];
    let study = |better| {
        study(
            &[OURS, "a", "b"],
            Metric::new("rate", "1/s", better),
            vec![(Point::number(1.0), rounds.clone())],
        )
    };
    let peer = |better| best(&study(better).panels[0], 0, 0, 1..3);
    assert_eq!(peer(Better::More), Some(2));
    assert_eq!(peer(Better::Less), Some(1));
    assert_eq!(best(&study(Better::More).panels[0], 0, 0, 3..5), None);
}

#[test]
fn doubt_is_decided_against_ourselves() {
    use Outcome::{Met, Missed, NotMeasured};
    let names: &[&str] = &["a", "b"];
    let check =
        |rounds, expected| check(Beside::Each(names), Goal::NoMoreThan(1.0), rounds, expected);
    let ratio = "uthread / a";
    check(
        [cannot(), around(10.0), around(20.0)],
        (Missed, "", "uthread cannot: no threads"),
    );
    check(
        [Vec::new(), around(10.0), around(20.0)],
        (NotMeasured, "", "uthread has no figure"),
    );
    check(
        [around(9.0), around(10.0), Vec::new()],
        (NotMeasured, ratio, "b was not measured"),
    );
    check(
        [around(11.0), around(10.0), Vec::new()],
        (Missed, ratio, "b was not measured"),
    );
    check([around(9.0), around(10.0), cannot()], (Met, ratio, ""));
    check([around(9.0), cannot(), cannot()], (NotMeasured, "", ""));
    let few = |median| around(median)[..5].to_vec();
    check(
        [few(9.0), few(10.0), few(20.0)],
        (NotMeasured, ratio, "too few rounds to tell"),
    );
    let mut flaky = around(9.0);
    flaky[0] = cannot()[0].clone();
    check(
        [flaky, around(10.0), around(20.0)],
        (Met, ratio, "uthread failed in 1 of 7 rounds"),
    );
}

#[test]
fn a_figure_is_compared_only_in_the_unit_of_the_target() {
    let rounds = [around(0.1), Vec::new(), Vec::new()];
    let note = "the figure is in us, the target in ns";
    check(
        Beside::Nobody("ns"),
        Goal::AtMost(120.0),
        rounds,
        (Outcome::NotMeasured, "", note),
    );
}

#[test]
fn a_target_holds_at_each_point_or_is_missed() {
    let target = target("CPU", Beside::Below("a"), Goal::AtMost(1.0));
    let judge = |points: Vec<[Vec<Round>; 2]>| {
        let points = points
            .into_iter()
            .zip(1..)
            .map(|(rounds, value)| (Point::number(f64::from(value)), rounds.to_vec()));
        let study = study(
            &[OURS, "a"],
            Metric::new("CPU", "us", Better::Less),
            points.collect(),
        );
        let verdict = verdict(target, study);
        let worst = verdict.worst().map(|judged| judged.point.clone());
        (
            verdict.outcome,
            verdict.points.len(),
            worst.unwrap_or_default(),
        )
    };
    let (good, better, bad) = (
        [around(9.0), around(10.0)],
        [around(5.0), around(10.0)],
        [around(11.0), around(10.0)],
    );
    let absent = [Vec::new(), Vec::new()];
    let none = [nothing(ROUNDS), nothing(ROUNDS)];
    assert_eq!(
        judge(vec![good.clone(), better.clone()]),
        (Outcome::Met, 2, "1 connection".to_owned())
    );
    assert_eq!(
        judge(vec![good.clone(), bad, absent.clone()]),
        (Outcome::Missed, 3, "2 connections".to_owned())
    );
    assert_eq!(
        judge(vec![good.clone(), absent]),
        (Outcome::NotMeasured, 2, "2 connections".to_owned())
    );
    // Where the metric does not apply to anybody, there is nothing to judge.
    assert_eq!(
        judge(vec![none.clone(), good]),
        (Outcome::Met, 1, "2 connections".to_owned())
    );
    assert_eq!(judge(vec![none]), (Outcome::NotMeasured, 0, String::new()));
}

#[test]
fn what_is_not_in_the_results_is_not_measured() {
    let study = || {
        study(
            &["a"],
            Metric::new("CPU", "us", Better::Less),
            vec![(Point::number(1.0), vec![around(1.0)])],
        )
    };
    let check = |change: fn(&mut Target), points: usize| {
        let mut target = Target {
            what: "",
            study: "s",
            panel: "a p",
            points: &["1"],
            metric: "CPU",
            beside: Beside::Below("a"),
            goal: Goal::AtMost(1.0),
        };
        change(&mut target);
        let verdict = verdict(Box::leak(Box::new(target)), study());
        assert_eq!(
            (verdict.outcome, verdict.points.len()),
            (Outcome::NotMeasured, points)
        );
    };
    // There, but without ours.
    check(|_| {}, 1);
    check(|target| target.study = "t", 0);
    check(|target| target.panel = "b", 0);
    check(|target| target.points = &["2"], 0);
    check(|target| target.metric = "rate", 0);
}

#[test]
fn a_limit_that_forbids_the_target_is_named() {
    let judge = |limit: f64| {
        let rounds = vec![around(100.0), around(100.0)];
        let mut study = study(
            &[OURS, "a"],
            Metric::new("rate", "1/s", Better::More),
            vec![(Point::number(1.0), rounds)],
        );
        study.panels[0].limits.push(Limit {
            name: "Little's law".to_owned(),
            metric: 0,
            figures: vec![limit],
        });
        let verdict = verdict(
            target("rate", Beside::Best(&["a"]), Goal::AtLeast(1.2)),
            study,
        );
        (verdict.outcome, verdict.points[0].note.clone())
    };
    assert_eq!(
        judge(110.0),
        (Outcome::Missed, "Little's law is 1.10 times a".to_owned())
    );
    assert_eq!(judge(121.0), (Outcome::Missed, String::new()));
}

#[test]
fn the_targets_say_what_they_judge() {
    for (index, target) in TARGETS.iter().enumerate() {
        assert!(!target.what.is_empty() && target.goal.bound() > 0.0);
        assert!(
            TARGETS[..index]
                .iter()
                .all(|other| other.what != target.what),
            "{}",
            target.what
        );
    }
    // The issue's own, with their bounds as they stand in it.
    let bounds: Vec<f64> = TARGETS.iter().map(|target| target.goal.bound()).collect();
    assert_eq!(bounds[..9], [1.0, 1.05, 2.0, 1.2, 1.0, 1.3, 1.5, 1.0, 0.95]);
}
