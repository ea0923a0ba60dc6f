//! How one figure is taken: what is read from the kernel, when, how often, and what is concluded
//! from it.

pub mod proc;
pub mod quiet;
pub mod stats;

use anyhow::Result;

use quiet::Usage;

/// A machine that is disturbed three times in a row is busy, and the flag must say so.
const ATTEMPTS_MAX: usize = 3;

/// One measurement: its figures in the order of the panel's metrics (`NAN` where one does not
/// apply), and the CPU use meanwhile.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Figures in the order of the metrics.
    pub figures: Vec<f64>,
    /// CPU use of the measured processes and of others.
    pub usage: Usage,
}

/// Repeats a disturbed measurement, twice at most, and returns the least disturbed one.
///
/// # Errors
///
/// The errors of `measure`.
pub fn least_disturbed(mut measure: impl FnMut() -> Result<Taken>) -> Result<Taken> {
    let mut best = measure()?;
    for _ in 1..ATTEMPTS_MAX {
        // Waiting in vain for a quiet machine was the second chance already.
        if !best.usage.is_disturbed() || !best.usage.quiet_before {
            break;
        }
        let again = measure()?;
        if again.usage.quiet_before && again.usage.disturbance() < best.usage.disturbance() {
            best = again;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_measurement_is_repeated_up_to_the_bound() {
        let check = |others: &[f64], quiet_before, measured: usize, kept: f64| {
            let mut next = 0;
            let best = least_disturbed(|| {
                next += 1;
                let usage = Usage {
                    others_share: others[next - 1],
                    quiet_before,
                    ..Usage::default()
                };
                Ok(Taken {
                    figures: vec![next as f64],
                    usage,
                })
            });
            let found = (next, best.unwrap().figures[0]);
            assert_eq!(found, (measured, kept), "{others:?}");
        };
        check(&[0.01], true, 1, 1.0);
        check(&[0.50, 0.02], true, 2, 2.0);
        check(&[0.50, 0.90, 0.05], true, 3, 3.0);
        check(&[0.50, 0.30, 0.40], true, 3, 2.0);
        check(&[0.50], false, 1, 1.0);
    }
}
