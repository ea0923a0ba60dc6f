//! Echo: messages of 16 bytes over more and more connections, as a closed loop.

use anyhow::Result;

use super::contest::{AROUND_SECONDS, Contest, OURS, Task, metrics};
use crate::load::Load;
use crate::place::Place;
use crate::results::{self, Panel, Point};
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
    let plan = results::Study::new(
        [
            "echo",
            "Echo: 16 bytes and back",
            "A server sends each message of 16 bytes back. Each connection sends its next message when it has been \
             answered. What does an answer cost, how long does it take, and is every connection served alike, from 1 to \
             15,000 connections?",
        ],
        vec![
            place.describe(1),
            "Floor is no runtime: a loop around epoll that does this and nothing else.".to_owned(),
            "Fairness is given only where connections got 30 answers or more on average.".to_owned(),
            "Polling: a thread of the kernel takes the requests. Here it shares the one CPU of the server.".to_owned(),
            "Where the load is busy all the time (load busy), the load limits the rate, and the CPU for each answer \
             says more."
                .to_owned(),
        ],
        contest.subjects.clone(),
        vec![panel],
    );
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
