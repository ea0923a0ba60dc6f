//! The measurements that a scenario has lost. They are named at the end, and fail the run: with
//! rounds missing, figures that look complete are those of other conditions.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use uthread_report::results::{Round, Study};

use crate::options::Options;

/// Checks that each planned measurement of a scenario has its figures.
///
/// A scenario without any of the chosen techniques is complete, unless it was asked for by name.
///
/// # Errors
///
/// The number of measurements that failed, with the most frequent reason; or why there was nothing
/// to measure.
pub(crate) fn check(study: &Study, options: &Options) -> Result<()> {
    let name = &study.name;
    let chosen = study.subjects.iter().enumerate();
    let chosen: Vec<_> = chosen
        .filter(|(_, subject)| options.includes(&subject.name))
        .collect();
    let mut scenarios = options.scenarios.iter();
    let is_named = scenarios.any(|scenario| scenario.name() == name);
    ensure!(
        !chosen.is_empty() || !is_named,
        "{name}: nothing was measured: it has none of the techniques of --only"
    );
    let missing = chosen.iter().map(|(_, subject)| subject.missing.as_ref());
    if let Some(reasons) = missing.collect::<Option<Vec<_>>>()
        && let Some(first) = reasons.first()
    {
        bail!("{name}: nothing was measured: no technique works here: {first}");
    }
    let present = chosen
        .iter()
        .filter(|(_, subject)| subject.missing.is_none());
    let present: Vec<usize> = present.map(|(index, _)| *index).collect();
    let (planned, taken, reason) = count(study, &present, options.rounds as usize);
    let lost = planned - taken;
    let all = if taken == 0 {
        "nothing was measured: "
    } else {
        ""
    };
    ensure!(
        lost == 0,
        "{name}: {all}{lost} of {planned} measurements failed: {reason}"
    );
    Ok(())
}

/// Counts planned and successful measurements of these subjects, and returns the most frequent
/// reason of failures.
fn count(study: &Study, present: &[usize], rounds_each: usize) -> (usize, usize, String) {
    let (mut planned, mut taken) = (0, 0);
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for panel in &study.panels {
        for point in 0..panel.points.len() {
            for &subject in present {
                planned += rounds_each;
                for round in panel.rounds(point, subject) {
                    match round {
                        Round::Taken { .. } => taken += 1,
                        Round::Cannot(reason) => *reasons.entry(reason).or_default() += 1,
                    }
                }
            }
        }
    }
    let most = reasons.into_iter().max_by_key(|(_, count)| *count);
    let reason = most.map_or("", |(reason, _)| reason).to_owned();
    (planned, taken, reason)
}
