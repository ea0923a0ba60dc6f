//! How the fibers of a trial relate to the workers.

use std::fmt;
use std::str::FromStr;

use uthread::runtime::{Builder, Runtime};

/// A mode of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A fiber shares its thread-local storage with the worker's other fibers.
    Lean,
    /// The default: a fiber has thread-local storage of its own.
    OwnTls,
}

impl Mode {
    pub(crate) const ALL: [Mode; 2] = [Mode::Lean, Mode::OwnTls];

    /// Returns the builder of a runtime in this mode.
    pub(crate) fn builder(self) -> Builder {
        match self {
            Mode::Lean => Runtime::builder().lean(),
            Mode::OwnTls => Runtime::builder(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Mode::Lean => "lean",
            Mode::OwnTls => "own-tls",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        let mut all = Mode::ALL.into_iter();
        all.find(|mode| mode.name() == text)
            .ok_or_else(|| format!("`{text}` is not a mode: choose lean or own-tls"))
    }
}
