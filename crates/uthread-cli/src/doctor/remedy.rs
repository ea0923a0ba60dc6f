//! Remedies for the problems that the doctor finds.

use serde::Serialize;

/// A problem, and the commands that solve it.
#[derive(Debug, Serialize)]
pub(crate) struct Remedy {
    pub(crate) problem: String,
    pub(crate) commands: Vec<String>,
}

impl Remedy {
    pub(crate) fn new<'a>(
        problem: impl Into<String>,
        commands: impl IntoIterator<Item = &'a str>,
    ) -> Remedy {
        Remedy {
            problem: problem.into(),
            commands: commands.into_iter().map(str::to_owned).collect(),
        }
    }
}
