//! The options of real runs, and the runs that they ask for.

use std::fmt::{self, Display, Formatter};

use anyhow::{Context, ensure};

use crate::outcome::Outcome;
use crate::real;
use crate::scenario::Scenario;

/// The scales: a real run takes at most as long as the scenario, and its times remain longer than
/// what a timer can tell apart.
const SCALES: std::ops::RangeInclusive<f64> = 1.0..=1000.0;

// Without a doc comment, which would replace the description of the subcommands.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Reality {
    /// Also run it: clients, service and slow dependencies on loopback, on each driver
    #[arg(long)]
    real: bool,

    /// Divide all times of real runs by this number [default: so that each run takes less than 20
    /// s]
    #[arg(long, value_name = "K", value_parser = parse_scale)]
    scale: Option<f64>,
}

impl Reality {
    /// Returns the options, and those of `outer` where these are absent.
    pub(crate) fn or(self, outer: Reality) -> Reality {
        Reality {
            real: self.real || outer.real,
            scale: self.scale.or(outer.scale),
        }
    }

    /// Returns the first option that is given.
    pub(crate) fn first_given(self) -> Option<&'static str> {
        match self {
            Reality { real: true, .. } => Some("--real"),
            Reality { scale: Some(_), .. } => Some("--scale"),
            Reality { .. } => None,
        }
    }

    /// Runs a scenario on each driver that its services have, if the options ask for it. Returns
    /// the results, and sentences on drivers that are not available.
    ///
    /// # Errors
    ///
    /// `--scale` without `--real`, and the errors of the runs.
    pub(crate) fn run(
        self,
        scenario: &Scenario,
        simulated: &[Outcome],
    ) -> anyhow::Result<(Vec<Outcome>, Vec<String>)> {
        ensure!(
            self.real || self.scale.is_none(),
            "--scale is for real runs: add --real"
        );
        let (mut outcomes, mut missing) = (Vec::new(), Vec::new());
        for simulated in simulated.iter().filter(|_| self.real) {
            let default = || real::default_scale(simulated.seconds);
            let scale = self.scale.unwrap_or_else(default);
            for driver in real::drivers(simulated.mode) {
                if let Some(refusal) = real::refusal(driver) {
                    missing.push(refusal);
                    continue;
                }
                let seconds = (simulated.seconds / scale).ceil();
                eprintln!("{driver}: a real run of about {seconds} s");
                let outcome = real::measure(scenario, simulated, driver, scale);
                outcomes.push(outcome.with_context(|| format!("run on {driver}"))?);
            }
        }
        Ok((outcomes, missing))
    }
}

impl Display for Reality {
    /// Writes the options for a shell, each after a space.
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        if self.real {
            write!(formatter, " --real")?;
        }
        match self.scale {
            Some(scale) => write!(formatter, " --scale {scale}"),
            None => Ok(()),
        }
    }
}

fn parse_scale(text: &str) -> Result<f64, String> {
    let scale = text.parse::<f64>().ok();
    let scale = scale.filter(|scale| SCALES.contains(scale));
    scale.ok_or_else(|| {
        let (least, most) = (SCALES.start(), SCALES.end());
        format!("{text:?} is no number from {least} to {most}")
    })
}
