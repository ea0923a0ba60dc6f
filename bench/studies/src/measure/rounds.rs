//! Interleaved rounds: each round measures every subject once, starting one further each time.
//!
//! What drifts (temperature, neighbours, page cache) then reaches all subjects alike, and no subject always comes after
//! the same other. A disturbed measurement is taken again at once, so that a round stays a pair in time.

use anyhow::Result;

use super::quiet::Usage;

/// Two more chances: a machine disturbed three times running is a busy machine, which the flag must say.
pub(crate) const ATTEMPTS_MAX: usize = 3;

/// One subject's figures in one round, in the order of the study's metrics; `NAN` where a metric does not apply.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) figures: Vec<f64>,
    pub(crate) usage: Usage,
}

/// Returns `[subject][round]`. `progress` hears of every measurement before it starts.
pub(crate) fn interleave(
    subjects: usize,
    rounds: usize,
    mut progress: impl FnMut(usize, usize),
    mut measure: impl FnMut(usize) -> Result<Taken>,
) -> Result<Vec<Vec<Taken>>> {
    let mut taken: Vec<Vec<Taken>> = vec![Vec::with_capacity(rounds); subjects];
    for round in 0..rounds {
        for place in 0..subjects {
            let subject = (round + place) % subjects;
            progress(round, subject);
            taken[subject].push(least_disturbed(|| measure(subject))?);
        }
    }
    Ok(taken)
}

/// Measures again what was disturbed, up to a bound, and keeps the best.
pub(crate) fn least_disturbed(mut measure: impl FnMut() -> Result<Taken>) -> Result<Taken> {
    let mut best = measure()?;
    for _ in 1..ATTEMPTS_MAX {
        // A wait for quiet that ended in vain was itself the second chance.
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
    use crate::measure::proc::Cpu;

    fn taken(figure: f64, others_share: f64) -> Taken {
        let usage = Usage {
            server: Cpu::default(),
            others_share,
            steal_share: 0.0,
            quiet_before: true,
        };
        Taken {
            figures: vec![figure],
            usage,
        }
    }

    #[test]
    fn every_round_starts_one_subject_further() {
        let mut order = Vec::new();
        let measure = |subject| {
            order.push(subject);
            Ok(taken(subject as f64, 0.0))
        };
        let rounds = interleave(3, 4, |_, _| {}, measure).unwrap();
        assert_eq!(order, [0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2]);
        for (subject, of_subject) in rounds.iter().enumerate() {
            assert_eq!(of_subject.len(), 4);
            assert!(
                of_subject
                    .iter()
                    .all(|taken| taken.figures == [subject as f64])
            );
        }
    }

    #[test]
    fn a_disturbed_measurement_is_repeated_up_to_the_bound() {
        let check = |others: &[f64], measured: usize, kept: f64| {
            let mut next = 0;
            let best = least_disturbed(|| {
                next += 1;
                Ok(taken(next as f64, others[next - 1]))
            });
            assert_eq!(
                (next, best.unwrap().figures[0]),
                (measured, kept),
                "{others:?}"
            );
        };
        check(&[0.01], 1, 1.0);
        check(&[0.50, 0.02], 2, 2.0);
        check(&[0.50, 0.90, 0.05], 3, 3.0);
        check(&[0.50, 0.30, 0.40], 3, 2.0);
    }

    #[test]
    fn a_machine_that_never_was_quiet_is_not_waited_for_again() {
        let mut measured = 0;
        let best = least_disturbed(|| {
            measured += 1;
            let mut taken = taken(1.0, 0.0);
            taken.usage.quiet_before = false;
            Ok(taken)
        });
        assert_eq!(measured, 1);
        assert!(best.unwrap().usage.is_disturbed());
    }
}
