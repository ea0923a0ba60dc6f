//! The runner, with a study that records its cells.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use anyhow::bail;

use super::*;
use crate::measure::quiet::Usage;
use crate::results::{Better, Metric, Panel, Point, Subject};

/// Returns a study of two panels that records its cells. The second panel has no subject `b`, and the subject `weak` always
/// fails. `stops_at`: the measurement that fails as if by Ctrl-C, which it sets.
fn asked(
    subjects: &[&str],
    stops_at: Option<(usize, Arc<AtomicBool>)>,
) -> (Study, Rc<RefCell<Vec<Cell>>>) {
    let plan = plan(subjects);
    let names: Vec<String> = plan
        .subjects
        .iter()
        .map(|subject| subject.name.clone())
        .collect();
    let cells: Rc<RefCell<Vec<Cell>>> = Rc::default();
    let recorded = Rc::clone(&cells);
    let measure = move |cell: Cell| {
        recorded.borrow_mut().push(cell);
        let asked = recorded.borrow().len();
        if let Some((count, stop)) = &stops_at
            && asked == *count
        {
            stop.store(true, Ordering::Relaxed);
            bail!("its server was interrupted");
        }
        if names[cell.subject] == "weak" {
            bail!("too\n weak");
        }
        let usage = Usage {
            quiet_before: true,
            ..Usage::default()
        };
        Ok(Taken {
            figures: vec![1000.0 + asked as f64, f64::NAN],
            usage,
        })
    };
    let study = Study::new(plan, 1.0, measure);
    (
        study.where_it(|panel, subject| (panel, subject) != (1, 1)),
        cells,
    )
}

fn plan(subjects: &[&str]) -> results::Study {
    let metrics = || vec![Metric::new("rate", "1/s", Better::More); 2];
    let panel = |title: &str, points| Panel::new(title, "connections", points, metrics());
    let mut subjects: Vec<Subject> = subjects.iter().map(|name| Subject::ours(name)).collect();
    subjects.push(Subject::peer("c", None, Some("not here".to_owned())));
    let first = panel("first", vec![Point::number(1.0), Point::number(10.0)]);
    let panels = vec![first, panel("second", vec![Point::name("all")])];
    results::Study::new(["asked", "", ""], Vec::new(), subjects, panels)
}

#[test]
fn every_round_starts_one_subject_further() {
    let (study, _) = asked(&["a", "b"], None);
    let order: Vec<_> = cells(&study, &rounds(2))
        .iter()
        .map(|cell| (cell.round, cell.panel, cell.point, cell.subject))
        .collect();
    let first = [
        (0, 0, 0, 0),
        (0, 0, 0, 1),
        (0, 0, 1, 0),
        (0, 0, 1, 1),
        (0, 1, 0, 0),
    ];
    let second = [
        (1, 0, 0, 1),
        (1, 0, 0, 0),
        (1, 0, 1, 1),
        (1, 0, 1, 0),
        (1, 1, 0, 0),
    ];
    assert_eq!(order, [first, second].concat());
}

fn rounds(rounds: u64) -> Measuring {
    Measuring {
        rounds,
        seconds: 1,
        quiet_wait_seconds: 0,
        only: Vec::new(),
    }
}

const SETTINGS: fn() -> Settings = || Settings {
    program: "this".to_owned(),
    seconds: 1,
};

/// Runs for three rounds. Returns the results and the number of measurements.
fn run_for_three(
    (study, cells): (Study, Rc<RefCell<Vec<Cell>>>),
    journal: &Path,
    stop: &AtomicBool,
) -> (results::Study, usize) {
    let mut journal = Journal::open(journal, &SETTINGS()).unwrap();
    let mut found = run(&mut [study], &rounds(3), &mut journal, stop).unwrap();
    let asked = cells.borrow().len();
    (found.remove(0), asked)
}

#[test]
fn an_interrupted_run_continues() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let stop = Arc::new(AtomicBool::new(false));
    let study = asked(&["a", "b"], Some((7, Arc::clone(&stop))));
    let (found, measured) = run_for_three(study, &journal, &stop);
    assert_eq!(measured, 7);
    let rounds = results::Study::measurements;
    assert_eq!(rounds(&found), 6, "the interrupted one does not count");

    let stop = AtomicBool::new(false);
    let (found, measured) = run_for_three(asked(&["a", "b"], None), &journal, &stop);
    assert_eq!((measured, rounds(&found)), (9, 15));
    assert!(found.panels[1].rounds(0, 1).is_empty(), "it does not apply");
    assert!(found.panels[0].rounds(0, 2).is_empty(), "it is missing");
    let (again, measured) = run_for_three(asked(&["a", "b"], None), &journal, &stop);
    assert_eq!((measured, again), (0, found));
}

#[test]
fn a_cell_that_always_fails_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let stop = AtomicBool::new(false);
    let (found, measured) = run_for_three(asked(&["a", "weak"], None), &journal, &stop);
    // Nine of the first; of the second at two points twice.
    assert_eq!(measured, 13);
    assert_eq!(found.panels[0].failures(0, 1).get("too weak"), Some(&2));
    assert_eq!(found.panels[0].rounds(0, 0).len(), 3);
    assert_eq!(found.panels[0].rounds(0, 0)[0].figure(1), None, "NaN");
}

#[test]
fn a_journal_of_other_settings_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    Journal::open(&journal, &SETTINGS()).unwrap();
    let others = Settings {
        seconds: 2,
        ..SETTINGS()
    };
    let error = Journal::open(&journal, &others).err().unwrap().to_string();
    assert!(
        error.contains("remove it") && error.contains("--anew"),
        "{error}"
    );
    fs::write(&journal, "no journal\n").unwrap();
    assert!(Journal::open(&journal, &SETTINGS()).is_err());
}

#[test]
fn only_the_chosen_subjects_are_measured() {
    let only_b = Measuring {
        only: vec!["b".to_owned()],
        ..rounds(1)
    };
    let chosen = cells(&asked(&["a", "b"], None).0, &only_b);
    assert!(chosen.iter().all(|cell| cell.subject == 1));
    assert_eq!(chosen.len(), 2);
}

#[test]
fn a_found_figure_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let open = || Journal::open(&path, &SETTINGS()).unwrap();
    let found = |study, find: fn() -> Result<f64>| open().found(study, find);
    assert_eq!(found("echo", || Ok(7.0)).unwrap(), 7.0);
    let again = found("echo", || bail!("it was found before"));
    assert_eq!(again.unwrap(), 7.0);
    assert!(found("http", || bail!("not yet")).is_err());
}

#[test]
fn a_study_has_the_facts_of_its_first_day() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let stop = AtomicBool::new(false);
    let (found, _) = run_for_three(asked(&["a"], None), &journal, &stop);
    let names: Vec<&str> = found.facts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names[0], names[1]), ("date", "uthread"));
    let said = |found: &results::Study, name: &str| {
        let mut facts = found.facts.iter();
        facts.find(|fact| fact.0 == name).unwrap().1.clone()
    };
    assert_eq!(said(&found, "measured"), "3 rounds, 1 s each");
    let today = said(&found, "date");
    assert_eq!(today.len(), "2026-11-22".len(), "{today}");

    // Continued on another day, it keeps the day on which it began.
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replace(&today, "2026-01-01")).unwrap();
    let (found, measured) = run_for_three(asked(&["a"], None), &journal, &stop);
    assert_eq!((measured, said(&found, "date").as_str()), (0, "2026-01-01"));

    // A study that did not begin has no facts.
    let stop = AtomicBool::new(true);
    let (found, _) = run_for_three(asked(&["a"], None), &folder.path().join("other"), &stop);
    assert!(found.facts.is_empty());
}

#[test]
fn a_journal_ends_with_the_last_of_its_studies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let stop = AtomicBool::new(false);
    let other = || {
        let mut other = asked(&["a"], None);
        other.0.plan.name = "other".to_owned();
        other
    };
    run_for_three(asked(&["a"], None), &path, &stop);
    run_for_three(other(), &path, &stop);
    let mut journal = Journal::open(&path, &SETTINGS()).unwrap();
    journal.found("asked", || Ok(7.0)).unwrap();
    journal.forget(&["asked"]).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("\"other\"") && !text.contains("\"asked\""),
        "{text}"
    );
    let (_, measured) = run_for_three(asked(&["a"], None), &path, &stop);
    assert_eq!(measured, 9, "all of it anew");
    assert_eq!(run_for_three(other(), &path, &stop).1, 0, "nothing of it");

    let open = || Journal::open(&path, &SETTINGS()).unwrap();
    open().forget(&["asked", "other"]).unwrap();
    assert!(!path.exists(), "a later build begins its own");
    open().forget(&[]).unwrap();
}
