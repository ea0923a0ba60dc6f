//! How the fibers of a trial relate to the workers.

use std::env;
use std::fmt;
use std::str::FromStr;

use uthread::runtime::{Builder, Runtime};

/// The program that names `uthread-interpose`.
pub(crate) const INTERPOSED: &str = "uthread-crates-interposed";

/// A mode of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A fiber has thread-local storage of its own.
    Default,
    /// A fiber shares its thread-local storage with the worker's other fibers.
    Lean,
}

impl Mode {
    pub(crate) const ALL: [Mode; 2] = [Mode::Default, Mode::Lean];

    /// Returns the builder of a runtime in this mode.
    pub(crate) fn builder(self) -> Builder {
        match self {
            Mode::Default => Runtime::builder(),
            Mode::Lean => Runtime::builder().lean(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Mode::Default => "default",
            Mode::Lean => "lean",
        }
    }
}

/// Returns `true` in the program that names `uthread-interpose`.
pub(crate) fn is_interposed() -> bool {
    env::current_exe().is_ok_and(|program| program.ends_with(INTERPOSED))
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
            .ok_or_else(|| format!("`{text}` is not a mode: choose default or lean"))
    }
}
