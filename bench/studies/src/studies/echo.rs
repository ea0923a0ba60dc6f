//! Messages of 16 bytes over more and more connections, closed loop: how many answers, at what cost, how late, how
//! evenly?

use anyhow::Result;

use super::contest::{AROUND_SECONDS, Asked, Contest, OURS, PEERS, metrics};
use crate::load::Load;
use crate::measure::rounds::Taken;
use crate::place::Place;
use crate::results::{self, Panel, Point};
use crate::study::{Alone, Cell, Measuring, Study};

const CONNECTIONS: [u32; 6] = [1, 10, 100, 1_000, 5_000, 15_000];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    alone: Alone,
    /// Connections that send as soon as they have been answered, a point for each
    #[arg(long, value_delimiter = ',', default_values_t = CONNECTIONS,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: Vec<u32>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let study = Echo::new(&args.alone.measuring, &args.connections)?;
    args.alone.run(Box::new(study))
}

pub(crate) fn study(measuring: &Measuring) -> Result<Box<dyn Study>> {
    Ok(Box::new(Echo::new(measuring, &CONNECTIONS)?))
}

struct Echo {
    contest: Contest,
    place: Place,
    loads: Vec<Load>,
    plan: results::Study,
}

impl Echo {
    fn new(measuring: &Measuring, connections: &[u32]) -> Result<Echo> {
        let place = Place::apart_or_shared(1)?;
        let contest = Contest::new(measuring, OURS.len(), &PEERS)?;
        let points = connections
            .iter()
            .map(|&count| Point::number(f64::from(count)));
        let panel = Panel::new(
            "closed loop, 1 worker",
            "connections",
            points.collect(),
            metrics(),
        );
        let plan = results::Study {
            name: "echo".to_owned(),
            title: "Echo: 16 bytes and back".to_owned(),
            question: "A server sends each message of 16 bytes back. Each connection sends the next one when it has been \
                answered. What does an answer cost, how late is it, and is every connection served alike, from 1 to \
                15,000 connections?"
                .to_owned(),
            facts: Vec::new(),
            notes: vec![
                place.describe(1),
                "Floor is no runtime: a loop around epoll that does this and nothing else.".to_owned(),
                "Of connections that got fewer than 30 answers on the average it is not told how evenly they are served."
                    .to_owned(),
                "Polling: a thread of the kernel takes the requests. Here it shares the one CPU of the server."
                    .to_owned(),
                "Where the load is busy all the time (load busy), it is the load that limits the rate, and the CPU for \
                 each answer tells more."
                    .to_owned(),
            ],
            subjects: contest.subjects.clone(),
            panels: vec![panel],
        };
        let load = Load::closed(measuring.seconds, place.is_apart());
        let loads = connections
            .iter()
            .map(|&connections| load.with_connections(connections));
        Ok(Echo {
            contest,
            place,
            loads: loads.collect(),
            plan,
        })
    }
}

impl Study for Echo {
    fn plan(&self) -> &results::Study {
        &self.plan
    }

    fn measure(&mut self, cell: Cell) -> Result<Taken> {
        let asked = Asked {
            place: &self.place,
            workers: 1,
            compute_us: 0,
            load: &self.loads[cell.point],
        };
        self.contest.measure(cell.subject, &asked, cell.round == 0)
    }

    fn seconds_each(&self) -> f64 {
        self.loads[0].seconds as f64 + AROUND_SECONDS
    }
}
