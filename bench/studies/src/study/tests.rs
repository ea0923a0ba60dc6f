//! The runner, with a study that remembers what it was asked.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use anyhow::bail;

use super::*;
use crate::measure::quiet::Usage;
use crate::results::{Better, Metric, Panel, Point, Subject};

/// Remembers what was asked; the subject "weak" cannot do anything.
struct Asked {
    plan: results::Study,
    cells: Rc<RefCell<Vec<Cell>>>,
    /// The measurement that fails as if by Ctrl-C, which it sets.
    stops_at: Option<(usize, Arc<AtomicBool>)>,
}

impl Study for Asked {
    fn plan(&self) -> &results::Study {
        &self.plan
    }

    fn measure(&mut self, cell: Cell) -> Result<Taken> {
        self.cells.borrow_mut().push(cell);
        let asked = self.cells.borrow().len();
        if let Some((count, stop)) = &self.stops_at
            && asked == *count
        {
            stop.store(true, Ordering::Relaxed);
            bail!("its server was interrupted");
        }
        if self.plan.subjects[cell.subject].name == "weak" {
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
    }

    fn seconds_each(&self) -> f64 {
        1.0
    }

    fn applies(&self, panel: usize, subject: usize) -> bool {
        (panel, subject) != (1, 1)
    }
}

/// Of two panels, the second without the subject `b`.
fn asked(subjects: &[&str]) -> Asked {
    let metrics = || vec![Metric::new("rate", "1/s", Better::More); 2];
    let panel = |title: &str, points| Panel::new(title, "connections", points, metrics());
    let mut subjects: Vec<Subject> = subjects.iter().map(|name| Subject::ours(name)).collect();
    subjects.push(Subject::peer("c", None, Some("not here".to_owned())));
    Asked {
        plan: results::Study {
            name: "asked".to_owned(),
            title: String::new(),
            question: String::new(),
            facts: Vec::new(),
            notes: Vec::new(),
            subjects,
            panels: vec![
                panel("first", vec![Point::number(1.0), Point::number(10.0)]),
                panel("second", vec![Point::name("all")]),
            ],
        },
        cells: Rc::default(),
        stops_at: None,
    }
}

#[test]
fn every_round_starts_one_subject_further() {
    let study = asked(&["a", "b"]);
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

/// Runs for three rounds, and returns what was found and how many measurements were asked for.
fn run_for_three(study: Asked, journal: &Path, stop: &AtomicBool) -> (results::Study, usize) {
    let cells = Rc::clone(&study.cells);
    let mut journal = Journal::open(journal, &SETTINGS()).unwrap();
    let mut studies: Vec<Box<dyn Study>> = vec![Box::new(study)];
    let mut found = run(&mut studies, &rounds(3), &mut journal, stop).unwrap();
    let asked = cells.borrow().len();
    (found.remove(0), asked)
}

#[test]
fn a_run_that_was_ended_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let stop = Arc::new(AtomicBool::new(false));
    let study = Asked {
        stops_at: Some((7, Arc::clone(&stop))),
        ..asked(&["a", "b"])
    };
    let (found, measured) = run_for_three(study, &journal, &stop);
    assert_eq!(measured, 7);
    let rounds = |found: &results::Study| -> usize {
        let points = found.panels.iter().flat_map(|panel| &panel.rounds);
        points.flatten().map(Vec::len).sum()
    };
    assert_eq!(rounds(&found), 6, "the one that failed by the end is none");

    // As a run that was killed leaves it.
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, &text[..text.len() - 3]).unwrap();
    let stop = AtomicBool::new(false);
    let (found, measured) = run_for_three(asked(&["a", "b"]), &journal, &stop);
    assert_eq!((measured, rounds(&found)), (10, 15));
    assert!(found.panels[1].rounds(0, 1).is_empty(), "it does not apply");
    assert!(found.panels[0].rounds(0, 2).is_empty(), "it is missing");
    let (again, measured) = run_for_three(asked(&["a", "b"]), &journal, &stop);
    assert_eq!((measured, again), (0, found));
}

#[test]
fn what_always_fails_is_not_tried_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let stop = AtomicBool::new(false);
    let (found, measured) = run_for_three(asked(&["a", "weak"]), &journal, &stop);
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
fn only_those_that_were_chosen_are_measured() {
    let only_b = Measuring {
        only: vec!["b".to_owned()],
        ..rounds(1)
    };
    let chosen = cells(&asked(&["a", "b"]), &only_b);
    assert!(chosen.iter().all(|cell| cell.subject == 1));
    assert_eq!(chosen.len(), 2);
}

#[test]
fn what_was_found_once_is_not_looked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let open = || Journal::open(&path, &SETTINGS()).unwrap();
    let found = |study, name, find: fn() -> Result<f64>| open().found(study, name, find);
    assert_eq!(found("echo", "capacity", || Ok(7.0)).unwrap(), 7.0);
    let again = found("echo", "capacity", || bail!("it was found before"));
    assert_eq!(again.unwrap(), 7.0);
    assert!(found("echo", "other", || bail!("not yet")).is_err());
    assert!(found("http", "capacity", || bail!("not yet")).is_err());
}

#[test]
fn a_study_says_when_it_was_begun_and_on_what() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let stop = AtomicBool::new(false);
    let (found, _) = run_for_three(asked(&["a"]), &journal, &stop);
    let names: Vec<&str> = found.facts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names[0], names[1]), ("date", "uthread"));
    let said = |found: &results::Study, name: &str| {
        let mut facts = found.facts.iter();
        facts.find(|fact| fact.0 == name).unwrap().1.clone()
    };
    assert_eq!(said(&found, "measured"), "3 rounds, 1 s each");
    let today = said(&found, "date");
    assert_eq!(today.len(), "2026-11-22".len(), "{today}");

    // Gone on with on another day, it is of the day on which it was begun.
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replace(&today, "2026-01-01")).unwrap();
    let (found, measured) = run_for_three(asked(&["a"]), &journal, &stop);
    assert_eq!((measured, said(&found, "date").as_str()), (0, "2026-01-01"));

    // What was not begun has no facts.
    let stop = AtomicBool::new(true);
    let (found, _) = run_for_three(asked(&["a"]), &folder.path().join("other"), &stop);
    assert!(found.facts.is_empty());
}

#[test]
fn a_journal_ends_with_the_last_of_its_studies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let stop = AtomicBool::new(false);
    let mut other = asked(&["a"]);
    other.plan.name = "other".to_owned();
    run_for_three(asked(&["a"]), &path, &stop);
    run_for_three(other, &path, &stop);
    let mut journal = Journal::open(&path, &SETTINGS()).unwrap();
    journal.found("asked", "capacity", || Ok(7.0)).unwrap();
    drop(journal);

    Journal::forget(&path, &["asked"]).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("\"other\"") && !text.contains("\"asked\""),
        "{text}"
    );
    let (_, measured) = run_for_three(asked(&["a"]), &path, &stop);
    assert_eq!(measured, 9, "all of it anew");
    let mut other = asked(&["a"]);
    other.plan.name = "other".to_owned();
    assert_eq!(run_for_three(other, &path, &stop).1, 0, "nothing of it");

    Journal::forget(&path, &["asked", "other"]).unwrap();
    assert!(!path.exists(), "a later build begins its own");
    assert!(Journal::forget(&path, &[]).is_err());
}
