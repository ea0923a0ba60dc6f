//! The journal: the results of an unfinished run, in a file that is replaced after every
//! measurement, so that an interrupted run does not measure them again.
//!
//! It has the program and the settings. Measurements of another program or with other settings do
//! not belong to the same run. A finished run is in its report and is removed from here.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::file::write_whole;
use crate::results;

/// The settings that all measurements of a journal share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Hash of the programs that measure.
    pub program: String,
    /// Length of one measurement.
    pub seconds: u64,
}

/// Results of an unfinished run. The default one is not written to a file.
#[derive(Default, Serialize, Deserialize)]
pub struct Journal {
    /// `None`: nothing is written.
    #[serde(skip)]
    path: Option<PathBuf>,
    settings: Settings,
    studies: Vec<results::Study>,
    /// Figures that measurements depend on, by study.
    found: BTreeMap<String, f64>,
}

impl Journal {
    /// Opens the journal at `path`, or starts one.
    ///
    /// # Errors
    ///
    /// The errors of reading the file; or if it is not a journal, or one with other settings.
    pub fn open(path: &Path, settings: &Settings) -> Result<Journal> {
        let at = || format!("the journal {}", path.display());
        let mut journal = match fs::read(path) {
            Ok(json) => serde_json::from_slice(&json).with_context(at)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Journal {
                settings: settings.clone(),
                ..Journal::default()
            },
            Err(error) => return Err(error).with_context(at),
        };
        ensure!(
            journal.settings == *settings,
            "{} belongs to an unfinished run of another build or with other settings: remove it to measure its part again, drop \
             the earlier report too with --anew, or name another folder",
            at()
        );
        journal.path = Some(path.to_owned());
        Ok(journal)
    }

    /// Removes these studies, and the file with the last of them.
    ///
    /// # Errors
    ///
    /// The errors of writing or removing the file.
    pub fn forget(mut self, studies: &[&str]) -> Result<()> {
        self.studies
            .retain(|study| !studies.contains(&&*study.name));
        self.found.retain(|study, _| !studies.contains(&&**study));
        match &self.path {
            Some(path) if self.studies.is_empty() && path.exists() => {
                fs::remove_file(path).with_context(|| format!("remove {}", path.display()))
            }
            _ if self.studies.is_empty() => Ok(()),
            _ => self.write(),
        }
    }

    /// Returns the figure that the measurements of a study depend on. It is found once, also for a
    /// later run.
    ///
    /// # Errors
    ///
    /// The error of `find`, and those of writing the file.
    pub fn found(&mut self, study: &str, find: impl FnOnce() -> Result<f64>) -> Result<f64> {
        if let Some(&figure) = self.found.get(study) {
            return Ok(figure);
        }
        let figure = find()?;
        self.found.insert(study.to_owned(), figure);
        self.write()?;
        Ok(figure)
    }

    /// Makes room for the rounds of each cell, and adds the earlier ones with the facts of their
    /// day.
    pub(super) fn fill(&self, results: &mut results::Study, rounds: usize) {
        let subjects = &results.subjects;
        let known = self.studies.iter().find(|study| study.name == results.name);
        results.facts = known.map_or_else(Vec::new, |study| study.facts.clone());
        for panel in &mut results.panels {
            let named = |study: &&results::Study, title: &str| {
                study.panels.iter().position(|panel| panel.title == title)
            };
            let earlier =
                known.and_then(|study| Some((study, &study.panels[named(&study, &panel.title)?])));
            let rounds_of = |label: &str, subject: &str| {
                let (study, panel) = earlier?;
                let point = panel.points.iter().position(|point| point.label == label)?;
                Some(panel.rounds(point, study.subject(subject)?))
            };
            let cell = |point: &results::Point, subject: &results::Subject| {
                let earlier = rounds_of(&point.label, &subject.name).unwrap_or_default();
                earlier.iter().take(rounds).cloned().collect()
            };
            let cells = |point| {
                subjects
                    .iter()
                    .map(|subject| cell(point, subject))
                    .collect()
            };
            panel.rounds = panel.points.iter().map(cells).collect();
        }
    }

    /// Replaces the results of a study.
    pub(super) fn keep(&mut self, results: &results::Study) -> Result<()> {
        self.studies.retain(|study| study.name != results.name);
        self.studies.push(results.clone());
        self.write()
    }

    fn write(&self) -> Result<()> {
        match &self.path {
            None => Ok(()),
            Some(path) => {
                write_whole(path, &serde_json::to_vec(self)?).context("write the journal")
            }
        }
    }
}
