//! The runner, with a study that counts its measurements.

use std::cell::Cell as Counter;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use anyhow::bail;

use super::*;
use crate::measure::quiet::Usage;
use crate::results::{Better, Metric, Panel, Point, Subject};

/// Returns a study of two panels, and the number of its measurements. The second panel has no
/// subject `b`, and the subject `weak` always fails. `stops_at`: the measurement that fails as if
/// by Ctrl-C, which it sets.
fn asked(
    subjects: &[&str],
    stops_at: Option<(usize, Arc<AtomicBool>)>,
) -> (Study, Rc<Counter<usize>>) {
    let metrics = || vec![Metric::new("rate", "1/s", Better::More); 2];
    let panel = |title: &str, points| Panel::new(title, "connections", points, metrics());
    let mut named: Vec<Subject> = subjects.iter().map(|name| Subject::ours(name)).collect();
    named.push(Subject::peer("c", None, Some("not here".to_owned())));
    let panels = vec![
        panel("first", Point::numbers(&[1, 10])),
        panel("second", vec![Point::name("all")]),
    ];
    let plan = results::Study::new(["asked", "", ""], Vec::new(), named, panels);
    let weak = subjects.iter().position(|name| *name == "weak");
    let count = Rc::new(Counter::new(0));
    let counted = Rc::clone(&count);
    let measure = move |cell: Cell| {
        counted.set(counted.get() + 1);
        if let Some((_, stop)) = stops_at.as_ref().filter(|(at, _)| *at == counted.get()) {
            stop.store(true, Ordering::Relaxed);
            bail!("its server was interrupted");
        }
        if Some(cell.subject) == weak {
            bail!("too\n weak");
        }
        let usage = Usage {
            quiet_before: true,
            ..Usage::default()
        };
        Ok(Taken {
            figures: vec![1000.0, f64::NAN],
            usage,
        })
    };
    let study = Study::new(plan, 1.0, measure);
    (
        study.where_it(|panel, subject| (panel, subject) != (1, 1)),
        count,
    )
}

fn rounds(rounds: usize, only: &[&str]) -> Extent {
    Extent {
        rounds,
        only: only.iter().map(|&name| name.to_owned()).collect(),
        facts: vec![("uthread".to_owned(), "1.2.3".to_owned())],
    }
}

fn settings(seconds: u64) -> Settings {
    Settings {
        program: "this".to_owned(),
        seconds,
    }
}

/// Runs for three rounds. Returns the results and the number of measurements.
fn run_for_three(
    (study, count): (Study, Rc<Counter<usize>>),
    journal: &Path,
    stop: &AtomicBool,
) -> (results::Study, usize) {
    let mut journal = Journal::open(journal, &settings(1)).unwrap();
    let mut found = run(&mut [study], &rounds(3, &[]), &mut journal, stop).unwrap();
    (found.remove(0), count.get())
}

#[test]
fn every_round_starts_one_subject_further() {
    let study = asked(&["a", "b"], None).0;
    let order = |extent: &Extent| {
        let cells = cells(&study, extent).into_iter();
        let cells =
            cells.map(|cell| format!("{}{}{}{}", cell.round, cell.panel, cell.point, cell.subject));
        cells.collect::<Vec<_>>().join(" ")
    };
    let all = "0000 0001 0010 0011 0100 1001 1000 1011 1010 1100";
    assert_eq!(order(&rounds(2, &[])), all);
    assert_eq!(order(&rounds(1, &["b"])), "0001 0011");
}

#[test]
fn an_interrupted_run_continues() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let stop = Arc::new(AtomicBool::new(false));
    let study = asked(&["a", "b"], Some((7, Arc::clone(&stop))));
    let (found, measured) = run_for_three(study, &journal, &stop);
    // The interrupted one does not count.
    assert_eq!((measured, found.measurements()), (7, 6));
    let stop = AtomicBool::new(false);
    let (found, measured) = run_for_three(asked(&["a", "b"], None), &journal, &stop);
    assert_eq!((measured, found.measurements()), (9, 15));
    assert!(
        found.panels[1].rounds(0, 1).is_empty(),
        "a cell that does not apply has rounds"
    );
    assert!(
        found.panels[0].rounds(0, 2).is_empty(),
        "a missing cell has rounds"
    );
    let (again, measured) = run_for_three(asked(&["a", "b"], None), &journal, &stop);
    assert_eq!((measured, again), (0, found));

    let error = Journal::open(&journal, &settings(2))
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("remove it") && error.contains("--anew"),
        "{error}"
    );
    fs::write(&journal, "no journal\n").unwrap();
    assert!(Journal::open(&journal, &settings(1)).is_err());
}

#[test]
fn a_cell_that_always_fails_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, stop) = (folder.path().join("journal"), AtomicBool::new(false));
    let (found, measured) = run_for_three(asked(&["a", "weak"], None), &journal, &stop);
    // Nine of the first; of the second at two points twice.
    assert_eq!(measured, 13);
    assert_eq!(found.panels[0].failures(0, 1).get("too weak"), Some(&2));
    assert_eq!(found.panels[0].rounds(0, 0).len(), 3);
    assert_eq!(found.panels[0].rounds(0, 0)[0].figure(1), None, "NaN");
}

#[test]
fn a_study_has_the_facts_of_its_first_day() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let run = |stop| run_for_three(asked(&["a"], None), &journal, &AtomicBool::new(stop));
    assert!(
        run(true).0.facts.is_empty(),
        "a study that did not begin has facts"
    );
    let facts = run(false).0.facts;
    assert_eq!((&*facts[0].0, &*facts[1].0), ("date", "uthread"));
    // Continued on another day, it keeps the day on which it began.
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replace(&facts[0].1, "2026-01-01")).unwrap();
    let (found, measured) = run(false);
    assert_eq!((measured, &*found.facts[0].1), (0, "2026-01-01"));
}

#[test]
fn a_journal_ends_with_the_last_of_its_studies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let open = || Journal::open(&path, &settings(1)).unwrap();
    let run = |name: &str| {
        let mut study = asked(&["a"], None);
        study.0.plan.name = name.to_owned();
        run_for_three(study, &path, &AtomicBool::new(false)).1
    };
    assert_eq!((run("asked"), run("other")), (9, 9));
    assert_eq!(open().found("asked", || Ok(7.0)).unwrap(), 7.0);
    let again = open().found("asked", || bail!("it was found before"));
    assert_eq!(again.unwrap(), 7.0);
    open().forget(&["asked"]).unwrap();
    assert!(open().found("asked", || bail!("not yet")).is_err());
    assert_eq!((run("asked"), run("other")), (9, 0));
    open().forget(&["asked", "other"]).unwrap();
    assert!(!path.exists(), "a later build begins its own");
    open().forget(&[]).unwrap();
}
