//! The studies, one per file. `words.json` has their titles, questions and notes.

pub(crate) mod bulk;
pub(crate) mod counter;
pub(crate) mod disk;
pub(crate) mod echo;
pub(crate) mod haskell;
pub(crate) mod http;
pub(crate) mod memory;
pub(crate) mod programs;
pub(crate) mod search;
mod server_study;
pub(crate) mod service;
pub(crate) mod tunnel;

use std::collections::HashMap;

use serde::Deserialize;
use uthread_report::results::{Panel, Study, Subject};

#[derive(Deserialize)]
struct Words {
    title: String,
    question: String,
    notes: Vec<String>,
}

/// Describes a study by its words. `notes` come before those in the file.
fn plan(name: &str, mut notes: Vec<String>, subjects: Vec<Subject>, panels: Vec<Panel>) -> Study {
    let json = include_str!("words.json");
    let mut all: HashMap<String, Words> = serde_json::from_str(json).expect("words.json is valid");
    let words = all.remove(name).expect("each study has words");
    notes.extend(words.notes);
    Study::new(
        [name, &words.title, &words.question],
        notes,
        subjects,
        panels,
    )
}
