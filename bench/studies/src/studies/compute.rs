//! Echo with work before each answer, as a closed loop: how much CPU is left for the work, and who waits how long?

use anyhow::Result;

use super::contest::{AROUND_SECONDS, Contest, Task, metrics};
use super::plan;
use crate::load::Load;
use crate::place::Place;
use crate::results::{Limit, Panel, Point};
use crate::study::{Cell, Measuring, Study};

/// The panels: microseconds of work, and workers.
const SETUPS: [(u64, usize); 4] = [(20, 1), (20, 2), (200, 1), (200, 2)];
const CONNECTIONS: [u32; 2] = [100, 1_000];
/// Our subjects, which differ in where fibers run.
const OURS: usize = 2;

pub(crate) fn study(measuring: &Measuring) -> Result<Study> {
    let contest = Contest::new(measuring, OURS)?;
    let places: Result<Vec<Place>> = SETUPS
        .iter()
        .map(|&(_, workers)| Place::apart_or_shared(workers))
        .collect();
    let places = places?;
    let placed = SETUPS[..2].iter().zip(&places);
    let notes = placed.map(|(&(_, workers), place)| place.describe(workers));
    let panels = SETUPS.iter().map(|&(us, workers)| panel(us, workers));
    let subjects = contest.subjects.clone();
    let plan = plan("compute", notes.collect(), subjects, panels.collect());
    let seconds = measuring.seconds;
    let measure = move |cell: Cell| {
        let (compute_us, workers) = SETUPS[cell.panel];
        let place = &places[cell.panel];
        let task = Task {
            place,
            workers,
            compute_us,
            load: &Load::closed(CONNECTIONS[cell.point], seconds, place.is_apart()),
        };
        let measured = contest.measure(cell.subject, &task, cell.round == 0)?;
        Ok(measured.taken())
    };
    Ok(Study::new(plan, seconds as f64 + AROUND_SECONDS, measure))
}

fn panel(compute_us: u64, workers: usize) -> Panel {
    let plural = if workers == 1 { "" } else { "s" };
    let title = format!("{compute_us} us of work, {workers} worker{plural}");
    let mut panel = Panel::new(
        &title,
        "connections",
        Point::numbers(&CONNECTIONS),
        metrics(),
    );
    let bounds = CONNECTIONS.map(|count| bound(workers, compute_us, count));
    let limits = [
        ("what the work allows", "rate", bounds.map(|(rate, _)| rate)),
        (
            "Little's law",
            "p50",
            bounds.map(|(_, latency_us)| latency_us),
        ),
    ];
    for (name, metric, figures) in limits {
        panel
            .limits
            .extend(panel.metric(metric).map(|metric| Limit {
                name: name.to_owned(),
                metric,
                figures: figures.to_vec(),
            }));
    }
    panel
}

/// Returns what no server can pass if everything but the work is free: answers per second, and the mean latency at that rate in
/// microseconds.
fn bound(workers: usize, compute_us: u64, connections: u32) -> (f64, f64) {
    let busy = f64::from(connections).min(workers as f64);
    let rate = busy * 1e6 / compute_us as f64;
    (rate, f64::from(connections) * 1e6 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_limits_the_rate_and_the_rate_the_latency() {
        assert_eq!(bound(1, 1, 1), (1e6, 1.0));
        assert_eq!(bound(2, 20, 1), (50e3, 20.0));
        assert_eq!(bound(2, 20, 500), (100e3, 5e3));
        assert_eq!(bound(2, 200, 500), (10e3, 50e3));
    }
}
