//! Servers that are not saturated, as an open loop: how long does an answer take when there is CPU for all of them?
//!
//! Here workers sleep and have to be woken, which a closed loop does not show.

use anyhow::Result;

use super::contest::{AROUND_SECONDS, Contest, Task, metrics};
use super::plan;
use crate::load::Load;
use crate::place::Place;
use crate::results::{Metric, Panel, Point};
use crate::say::tell;
use crate::study::{Cell, Journal, Measuring, Study};

const NAME: &str = "latency";
/// Loads, as parts of what ours can answer. All get the same rate, so that a slow server does not gain by less load.
const PERCENT: [u32; 4] = [5, 20, 50, 80];
const CONNECTIONS: u32 = 50;
/// Our subjects, which differ in where fibers run.
const OURS: usize = 2;

pub(crate) fn study(measuring: &Measuring, journal: &mut Journal) -> Result<Study> {
    let place = Place::apart_or_shared(1)?;
    let contest = Contest::new(measuring, OURS)?;
    let closed = Load::closed(CONNECTIONS, measuring.seconds, place.is_apart());
    let task = |load| Task {
        place: &place,
        workers: 1,
        compute_us: 0,
        load,
    };
    let capacity = journal.found(NAME, || {
        tell!("latency: measuring the capacity of uthread");
        Ok(contest.measure(0, &task(&closed), false)?.report.per_second)
    })?;
    let panel = Panel::new(
        &format!("{CONNECTIONS} connections, 1 worker"),
        "of capacity",
        PERCENT.map(point).to_vec(),
        metrics().into_iter().map(drawn).collect(),
    );
    let capacity_note = format!(
        "Capacity is what uthread answers in a closed loop, {capacity:.0} a second. All get the same rates."
    );
    let notes = vec![place.describe(1), capacity_note];
    let plan = plan(NAME, notes, contest.subjects.clone(), vec![panel]);
    let loads = PERCENT.map(|percent| Load {
        rate: Some(((capacity * f64::from(percent) / 100.0) as u64).max(1)),
        ..closed.clone()
    });
    let seconds_each = closed.seconds as f64 + AROUND_SECONDS;
    let measure = move |cell: Cell| {
        let task = Task {
            place: &place,
            workers: 1,
            compute_us: 0,
            load: &loads[cell.point],
        };
        let measured = contest.measure(cell.subject, &task, cell.round == 0)?;
        Ok(measured.taken())
    };
    Ok(Study::new(plan, seconds_each, measure))
}

fn point(percent: u32) -> Point {
    Point {
        label: format!("{percent} %"),
        value: Some(f64::from(percent)),
    }
}

/// Draws the tail instead of the rate, which is given.
fn drawn(metric: Metric) -> Metric {
    match metric.name.as_str() {
        "rate" | "fairness" => Metric {
            is_drawn: false,
            ..metric
        },
        "p99.9" => metric.drawn(),
        _ => metric,
    }
}
