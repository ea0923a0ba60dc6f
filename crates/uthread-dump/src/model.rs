//! States, functions and places: what the other modules speak of.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

/// What a fiber does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum State {
    /// It runs on this thread.
    Running {
        /// The id of the thread.
        thread: i32,
    },
    /// It waits for its turn.
    Ready,
    /// It has not begun.
    New,
    /// It waits for another fiber, a thread or a time.
    Parked,
    /// It waits for an operation of the kernel.
    Operation,
    /// It was spawned as a dedicated fiber, and has a thread of its own.
    Dedicated,
    /// It has run beside its worker, and waits to return to it.
    Alone,
    /// It never runs again: its runtime was dropped.
    Abandoned,
    /// It ran or was resumed while the process, which was not stopped, was read.
    Moving,
    /// What its memory says makes no sense.
    Unknown,
}

/// A function of a backtrace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Frame {
    /// Its name; an address if there is none.
    pub function: String,
    /// The source file, if the program has line tables.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

/// A place in a source file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Frame {
    pub(crate) fn unknown(address: u64) -> Frame {
        Frame {
            function: format!("{address:#x}"),
            file: None,
            line: None,
        }
    }

    pub(crate) fn of_file(address: u64, file: &str) -> Frame {
        Frame {
            function: format!("{address:#x} in {file}"),
            file: None,
            line: None,
        }
    }
}

impl Display for Site {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl Display for State {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            State::Running { thread } => write!(out, "running on thread {thread}"),
            State::Ready => write!(out, "ready to run"),
            State::New => write!(out, "not begun"),
            State::Parked => write!(out, "parked"),
            State::Operation => write!(out, "waiting for an operation"),
            State::Dedicated => write!(out, "on a thread of its own"),
            State::Alone => write!(out, "returning to a worker"),
            State::Abandoned => write!(out, "abandoned"),
            State::Moving => write!(out, "running or resumed meanwhile"),
            State::Unknown => write!(out, "in an unknown state"),
        }
    }
}
