//! The journal: every measurement becomes a line of a file as soon as it was taken, so that an interrupted run does not
//! measure it again.
//!
//! The first line has the program and the settings. Measurements of another program or of other settings do not belong to
//! the same run. A finished run is in its report and is removed from here.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::Cell;
use crate::report::write_whole;
use crate::results::{self, Round};
use crate::setup::own_path;

/// What all measurements of a journal share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// Hash of the program file.
    pub(crate) program: String,
    pub(crate) seconds: u64,
}

impl Settings {
    pub(crate) fn of_this_program(seconds: u64) -> Result<Settings> {
        let own = own_path()?;
        let program = fs::read(&own).with_context(|| format!("read {}", own.display()))?;
        let mut hasher = DefaultHasher::new();
        hasher.write(&program);
        Ok(Settings {
            program: format!("{:016x}", hasher.finish()),
            seconds,
        })
    }
}

#[derive(Serialize, Deserialize)]
enum Line {
    /// Before the first measurement of the study.
    Begun {
        study: String,
        day: String,
    },
    Measured(Entry),
    /// A figure that the following measurements depend on.
    Found {
        study: String,
        name: String,
        figure: f64,
    },
}

impl Line {
    fn study(&self) -> &str {
        match self {
            Line::Begun { study, .. } | Line::Found { study, .. } => study,
            Line::Measured(entry) => &entry.study,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    study: String,
    panel: String,
    point: String,
    subject: String,
    round: Round,
}

impl Entry {
    pub(super) fn new(results: &results::Study, cell: Cell, round: &Round) -> Entry {
        let panel = &results.panels[cell.panel];
        Entry {
            study: results.name.clone(),
            panel: panel.title.clone(),
            point: panel.points[cell.point].label.clone(),
            subject: results.subjects[cell.subject].name.clone(),
            round: round.clone(),
        }
    }

    fn cell(&self) -> [String; 4] {
        [&self.study, &self.panel, &self.point, &self.subject].map(String::clone)
    }
}

#[derive(Default)]
pub(crate) struct Journal {
    /// `None`: nothing is written.
    file: Option<File>,
    /// By study, panel, point and subject, in the order of the rounds.
    known: HashMap<[String; 4], Vec<Round>>,
    /// By study and name.
    found: HashMap<[String; 2], f64>,
    /// The day on which each study began.
    begun: HashMap<String, String>,
}

impl Journal {
    /// Opens the journal at `path`, or starts one.
    pub(crate) fn open(path: &Path, settings: &Settings) -> Result<Journal> {
        let at = || format!("the journal {}", path.display());
        let mut options = OpenOptions::new();
        let mut file = options
            .create(true)
            .append(true)
            .open(path)
            .with_context(at)?;
        let text = fs::read_to_string(path).with_context(at)?;
        let mut lines = text.split_inclusive('\n');
        let mut journal = Journal::default();
        match lines.next() {
            None => write_line(&mut file, settings).with_context(at)?,
            Some(line) => {
                let of_file: Settings = serde_json::from_str(line).with_context(at)?;
                ensure!(
                    of_file == *settings,
                    "{} belongs to an unfinished run of another build or with other settings: remove it to measure its part again, \
                     drop the earlier report too with --anew, or name another folder",
                    at()
                );
            }
        }
        for line in lines {
            // A killed run may have left a part of a line.
            if !line.ends_with('\n') {
                file.set_len((text.len() - line.len()) as u64)
                    .with_context(at)?;
                break;
            }
            match serde_json::from_str(line).with_context(at)? {
                Line::Measured(entry) => {
                    let rounds = journal.known.entry(entry.cell()).or_default();
                    rounds.push(entry.round);
                }
                Line::Found {
                    study,
                    name,
                    figure,
                } => {
                    journal.found.insert([study, name], figure);
                }
                Line::Begun { study, day } => {
                    journal.begun.insert(study, day);
                }
            }
        }
        journal.file = Some(file);
        Ok(journal)
    }

    /// Removes these studies from the journal at `path`, and the file with the last of them.
    pub(crate) fn forget(path: &Path, studies: &[&str]) -> Result<()> {
        let at = || format!("the journal {}", path.display());
        let text = fs::read_to_string(path).with_context(at)?;
        let mut lines = text.split_inclusive('\n');
        let mut kept = lines.next().unwrap_or_default().to_owned();
        let settings_bytes = kept.len();
        for text in lines {
            let line: Line = serde_json::from_str(text).with_context(at)?;
            if !studies.contains(&line.study()) {
                kept.push_str(text);
            }
        }
        match kept.len() == settings_bytes {
            true => fs::remove_file(path).with_context(at),
            false => write_whole(path, kept.as_bytes()).with_context(at),
        }
    }

    /// Returns a figure that the measurements of a study depend on. It is found once, also for a later run.
    pub(crate) fn found(
        &mut self,
        study: &str,
        name: &str,
        find: impl FnOnce() -> Result<f64>,
    ) -> Result<f64> {
        let [study, name] = [study, name].map(str::to_owned);
        if let Some(&figure) = self.found.get(&[study.clone(), name.clone()]) {
            return Ok(figure);
        }
        let figure = find()?;
        self.write(&Line::Found {
            study,
            name,
            figure,
        })?;
        Ok(figure)
    }

    /// Returns the day on which the measurements of the study began.
    pub(super) fn begun(&self, study: &str) -> Option<&str> {
        self.begun.get(study).map(String::as_str)
    }

    pub(super) fn begin(&mut self, study: &str, day: &str) -> Result<()> {
        let [study, day] = [study, day].map(str::to_owned);
        self.write(&Line::Begun { study, day })
    }

    /// Adds earlier measurements to the results.
    pub(super) fn fill(&self, results: &mut results::Study, rounds: usize) {
        for panel in &mut results.panels {
            for (point, subjects) in panel.points.iter().zip(&mut panel.rounds) {
                for (subject, of_subject) in results.subjects.iter().zip(subjects) {
                    let names = [&results.name, &panel.title, &point.label, &subject.name];
                    let known = self.known.get(&names.map(String::clone));
                    let known = known.into_iter().flatten().take(rounds);
                    of_subject.extend(known.cloned());
                }
            }
        }
    }

    pub(super) fn add(&mut self, entry: Entry) -> Result<()> {
        self.write(&Line::Measured(entry))
    }

    fn write(&mut self, line: &Line) -> Result<()> {
        match &mut self.file {
            None => Ok(()),
            Some(file) => write_line(file, line).context("write the journal"),
        }
    }
}

fn write_line(file: &mut File, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    file.write_all(line.as_bytes())
}
