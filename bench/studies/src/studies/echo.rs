//! Echo: messages of 16 bytes over more and more connections, as a closed loop.

use anyhow::Result;

use super::contest::{AROUND_SECONDS, Contest, OURS, Task, metrics};
use super::plan;
use crate::load::Load;
use crate::place::Place;
use crate::results::{Panel, Point};
use crate::study::{Alone, Measuring, Study};

pub(crate) const CONNECTIONS: [u32; 6] = [1, 10, 100, 1_000, 5_000, 15_000];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) alone: Alone,
    /// Numbers of connections, a point for each
    #[arg(long, value_delimiter = ',', default_values_t = CONNECTIONS,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) connections: Vec<u32>,
}

pub(crate) fn study(measuring: &Measuring, connections: &[u32]) -> Result<Study> {
    let place = Place::apart_or_shared(1)?;
    let contest = Contest::new(measuring, OURS.len())?;
    let points = Point::numbers(connections);
    let panel = Panel::new("closed loop, 1 worker", "connections", points, metrics());
    let notes = vec![place.describe(1)];
    let plan = plan("echo", notes, contest.subjects.clone(), vec![panel]);
    let (seconds, spin) = (measuring.seconds, place.is_apart());
    let loads = connections
        .iter()
        .map(|&connections| Load::closed(connections, seconds, spin));
    let loads: Vec<Load> = loads.collect();
    let measure = move |cell: crate::study::Cell| {
        let task = Task {
            place: &place,
            workers: 1,
            compute_us: 0,
            load: &loads[cell.point],
        };
        let measured = contest.measure(cell.subject, &task, cell.round == 0)?;
        Ok(measured.taken())
    };
    Ok(Study::new(plan, seconds as f64 + AROUND_SECONDS, measure))
}
