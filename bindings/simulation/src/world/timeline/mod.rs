//! A run of a world as a picture: what has happened last, with a lane for each host.
//!
//! | variable | |
//! | --- | --- |
//! | `UTHREAD_TIMELINE` | the file, of SVG, that a run which fails writes |
//! | `UTHREAD_TIMELINE_EVENTS` | the number of events in it |
//!
//! | module | contents |
//! | --- | --- |
//! | [`picture`] | the shapes |
//! | [`scale`] | where a time is |
//! | [`words`] | what is said beside them |
//! | [`story`] | what the events of the trace mean together |

mod picture;
mod scale;
mod words;

mod story;

use std::io;
use std::path::{Path, PathBuf};
use std::{env, fmt};

use rustix::fs::{Mode, OFlags};

use self::story::Story;
use super::{State, now};

const FILE: &str = "UTHREAD_TIMELINE";

const EVENTS: &str = "UTHREAD_TIMELINE_EVENTS";

/// Number of events that a picture shows if nobody says how many: some screens side by side.
const EVENTS_SHOWN: usize = 300;

/// How a run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It goes on.
    Runs,
    Fails,
}

/// Writes the last events to a file.
///
/// # Errors
///
/// Those of the file.
pub(super) fn write(
    state: &State,
    path: &Path,
    events_max: usize,
    outcome: Outcome,
) -> io::Result<()> {
    // A run that ends with its runtime has no time any more.
    let last = state.trace.events().next_back().map(|(time, ..)| *time);
    let end = last
        .max(Some(state.trace.elapsed(now())))
        .unwrap_or_default();
    let story = Story::new(&state.trace, events_max, end);
    let picture = picture::draw(&story, |number| state.name(number), outcome);
    // By system calls, as functions of the C library would come back to the world.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let file = rustix::fs::open(path, flags, mode)?;
    let mut rest = picture.as_bytes();
    while !rest.is_empty() {
        let count = rustix::io::write(&file, rest)?;
        rest = &rest[count..];
    }
    Ok(())
}

/// Writes the picture of a run that fails, if a variable names a file. Returns what is said of it.
pub(super) fn write_failure(state: &State) -> impl fmt::Display + use<> {
    let Some(path) = env::var_os(FILE).map(PathBuf::from) else {
        return format!("uthread: {FILE}=run.svg draws them\n");
    };
    let events_max = env::var(EVENTS).map_or(Ok(EVENTS_SHOWN), |text| text.parse());
    let Ok(events_max) = events_max else {
        return format!("uthread: {EVENTS} is no number of events\n");
    };
    let path = std::path::absolute(&path).unwrap_or(path);
    match write(state, &path, events_max, Outcome::Fails) {
        Ok(()) => format!("uthread: {} shows them\n", path.display()),
        Err(error) => format!("uthread: {} cannot be written: {error}\n", path.display()),
    }
}
