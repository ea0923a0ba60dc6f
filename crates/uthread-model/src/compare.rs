//! How far reality deviates from the simulation.

use serde::Serialize;

use crate::outcome::Outcome;

/// A figure of the simulation and of a real run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Deviation {
    pub(crate) figure: String,
    pub(crate) model: f64,
    pub(crate) real: f64,
    /// The deviation as a share of the simulated figure; absent if that is zero.
    pub(crate) error: Option<f64>,
}

impl Deviation {
    fn new(figure: impl Into<String>, model: f64, real: f64) -> Deviation {
        Deviation {
            figure: figure.into(),
            model,
            real,
            error: (model != 0.0).then(|| real / model - 1.0),
        }
    }
}

/// Returns the deviations of rates, success and latencies, where there are both.
pub(crate) fn deviations(model: &Outcome, real: &Outcome) -> Vec<Deviation> {
    let mut all = Vec::new();
    if let (Some(model), Some(real)) = (model.rate_steady, real.rate_steady) {
        all.push(Deviation::new("rate", model, real));
    }
    all.extend([
        Deviation::new("rate with start and end", model.rate, real.rate),
        Deviation::new("success", model.success(), real.success()),
    ]);
    let percentiles = model.percentiles.iter().zip(&real.percentiles);
    all.extend(percentiles.map(|(model, real)| {
        let figure = format!("latency p{}", model.percent);
        Deviation::new(figure, model.latency, real.latency)
    }));
    if let (Some(model), Some(real)) = (model.latency, real.latency) {
        all.push(Deviation::new("latency mean", model.mean, real.mean));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, simulate, stories};

    #[test]
    fn a_deviation_is_a_share_of_the_simulated_figure() {
        let [slow, fast] = ["slower", "fast"].map(|name| {
            let story = stories::find(name).unwrap();
            simulate(&story, Mode::Async).unwrap()
        });
        let found = deviations(&fast, &slow);
        let of = |figure: &str| {
            let mut found = found.iter();
            found.find(|found| found.figure == figure).unwrap()
        };
        let median = of("latency p50");
        assert!((median.error.unwrap() - 2.0).abs() < 0.01, "{median:?}");
        assert_eq!(of("success").error, Some(0.0));
        assert_eq!(Deviation::new("x", 0.0, 1.0).error, None);
    }
}
