//! A scenario and its results, as one command has simulated them.

use crate::outcome::Outcome;
use crate::scenario::Scenario;

/// A scenario with its results.
pub(crate) struct Simulated {
    /// Arguments that repeat it.
    pub(crate) command: String,
    pub(crate) scenario: Scenario,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Simulated {
    /// Returns the name of the scenario, or the command if it has none.
    pub(crate) fn title(&self) -> &str {
        match self.scenario.name.as_str() {
            "" => &self.command,
            name => name,
        }
    }
}
