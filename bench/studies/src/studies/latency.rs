//! Servers that are not saturated, open loop: how late is an answer when there is CPU for all of them?
//!
//! Here workers fall asleep and have to be woken, of which a closed loop shows nothing.

use anyhow::Result;

use super::contest::{AROUND_SECONDS, Asked, Contest, PEERS, metrics};
use crate::load::Load;
use crate::measure::rounds::Taken;
use crate::place::Place;
use crate::results::{self, Metric, Panel, Point};
use crate::say::tell;
use crate::study::{Alone, Cell, Journal, Measuring, Study};

const NAME: &str = "latency";
/// Of what ours can do. The same rate for all, so that a slow one does not look good by being asked less.
const PERCENT: [u32; 4] = [5, 20, 50, 80];
const CONNECTIONS: u32 = 50;
/// Of ours, those whose fibers differ in where they run.
const OURS: usize = 2;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    alone: Alone,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let study = study(&args.alone.measuring, &mut Journal::default())?;
    args.alone.run(study)
}

pub(crate) fn study(measuring: &Measuring, journal: &mut Journal) -> Result<Box<dyn Study>> {
    Ok(Box::new(Latency::new(measuring, journal)?))
}

struct Latency {
    contest: Contest,
    place: Place,
    loads: Vec<Load>,
    plan: results::Study,
}

impl Latency {
    fn new(measuring: &Measuring, journal: &mut Journal) -> Result<Latency> {
        let place = Place::apart_or_shared(1)?;
        let contest = Contest::new(measuring, OURS, &PEERS)?;
        let closed =
            Load::closed(measuring.seconds, place.is_apart()).with_connections(CONNECTIONS);
        let capacity = journal.found(NAME, "capacity", || capacity(&contest, &place, &closed))?;
        let rate = |&percent: &u32| capacity * f64::from(percent) / 100.0;
        let points = PERCENT.iter().map(|percent| Point {
            label: format!("{percent} %"),
            value: Some(f64::from(*percent)),
        });
        let metrics = metrics()
            .into_iter()
            .map(|metric| match metric.name.as_str() {
                "rate" | "fairness" => Metric {
                    is_drawn: false,
                    ..metric
                },
                "p99.9" => metric.drawn(),
                _ => metric,
            });
        let title = format!("{CONNECTIONS} connections, 1 worker");
        let panel = Panel::new(&title, "of capacity", points.collect(), metrics.collect());
        let plan = results::Study {
            name: NAME.to_owned(),
            title: "Latency of a server that is not saturated".to_owned(),
            question: "Messages come at random times at a fixed mean rate, whether or not the ones before were answered. \
                How late is an answer, counted from when its message was due?"
                .to_owned(),
            facts: Vec::new(),
            notes: vec![
                place.describe(1),
                format!("Capacity is what uthread answered in a closed loop, {capacity:.0} a second, and the same for all."),
                "The load never sleeps while it has a CPU of its own, so that only the server's waking up is in the figures."
                    .to_owned(),
            ],
            subjects: contest.subjects.clone(),
            panels: vec![panel],
        };
        let loads = PERCENT.iter().map(|percent| Load {
            rate: Some((rate(percent) as u64).max(1)),
            ..closed.clone()
        });
        Ok(Latency {
            loads: loads.collect(),
            contest,
            place,
            plan,
        })
    }

    fn asked(&self, point: usize) -> Asked<'_> {
        Asked {
            place: &self.place,
            workers: 1,
            compute_us: 0,
            load: &self.loads[point],
        }
    }
}

/// What the first of the contest answers in a second.
fn capacity(contest: &Contest, place: &Place, closed: &Load) -> Result<f64> {
    tell!("latency: measuring what uthread can answer");
    let asked = Asked {
        place,
        workers: 1,
        compute_us: 0,
        load: closed,
    };
    Ok(contest.measure(0, &asked, false)?.figures[0])
}

impl Study for Latency {
    fn plan(&self) -> &results::Study {
        &self.plan
    }

    fn measure(&mut self, cell: Cell) -> Result<Taken> {
        let asked = self.asked(cell.point);
        self.contest.measure(cell.subject, &asked, cell.round == 0)
    }

    fn seconds_each(&self) -> f64 {
        self.loads[0].seconds as f64 + AROUND_SECONDS
    }
}
