//! A scenario and its results, as one command has simulated and measured them.

use crate::compare::{Deviation, deviations};
use crate::outcome::{Measured, Outcome};
use crate::scenario::Scenario;

/// A scenario with its results.
pub(crate) struct Simulated {
    /// Arguments that repeat it.
    pub(crate) command: String,
    pub(crate) scenario: Scenario,
    pub(crate) outcomes: Vec<Outcome>,
    /// Results of real runs, if there were any.
    pub(crate) real: Vec<Outcome>,
    /// Drivers without a real run, and why, in sentences.
    pub(crate) missing: Vec<String>,
}

impl Simulated {
    /// Returns the name of the scenario, or the command if it has none.
    pub(crate) fn title(&self) -> &str {
        match self.scenario.name.as_str() {
            "" => &self.command,
            name => name,
        }
    }

    /// Returns the simulated results, each followed by the real ones of the same kind of service.
    pub(crate) fn all(&self) -> Vec<&Outcome> {
        let with_real = |outcome| {
            let same = self.real.iter().filter(move |real| is_same(outcome, real));
            std::iter::once(outcome).chain(same)
        };
        self.outcomes.iter().flat_map(with_real).collect()
    }

    /// Returns how far each real run deviates from the simulation.
    pub(crate) fn deviations(&self) -> Vec<(&Measured, Vec<Deviation>)> {
        let compared = |real: &'_ Outcome| {
            let model = self
                .outcomes
                .iter()
                .find(|outcome| is_same(outcome, real))?;
            Some(deviations(model, real))
        };
        let real = self.real.iter();
        real.filter_map(|real| Some((real.measured.as_ref()?, compared(real)?)))
            .collect()
    }
}

fn is_same(simulated: &Outcome, real: &Outcome) -> bool {
    simulated.mode == real.mode
}
