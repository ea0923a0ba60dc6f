//! Echo with work in each answer, closed loop: what is left of the CPUs for the work, and who waits how long?

use anyhow::Result;

use super::contest::{AROUND_SECONDS, Asked, Contest, PEERS, metrics};
use crate::load::Load;
use crate::measure::rounds::Taken;
use crate::place::Place;
use crate::results::{self, Limit, Panel, Point};
use crate::study::{Cell, Measuring, Study};

const COMPUTE_US: [u64; 2] = [20, 200];
const WORKERS: [usize; 2] = [1, 2];
const CONNECTIONS: [u32; 2] = [100, 1_000];
/// Of ours, those whose fibers differ in where they run.
const OURS: usize = 2;

pub(crate) fn study(measuring: &Measuring) -> Result<Box<dyn Study>> {
    Ok(Box::new(Compute::new(measuring)?))
}

struct Compute {
    contest: Contest,
    /// One for each panel.
    setups: Vec<Setup>,
    seconds: u64,
    plan: results::Study,
}

struct Setup {
    compute_us: u64,
    workers: usize,
    place: Place,
}

impl Compute {
    fn new(measuring: &Measuring) -> Result<Compute> {
        let contest = Contest::new(measuring, OURS, &PEERS)?;
        let mut setups = Vec::new();
        for compute_us in COMPUTE_US {
            for workers in WORKERS {
                setups.push(Setup {
                    compute_us,
                    workers,
                    place: Place::apart_or_shared(workers)?,
                });
            }
        }
        let notes = WORKERS.iter().zip(&setups);
        let notes = notes.map(|(&workers, setup)| setup.place.describe(workers));
        let mut notes: Vec<String> = notes.collect();
        notes.push(
            "The work is an amount, the same arithmetic in all programs, found when a server starts: what this CPU, left \
             alone, does in that time."
                .to_owned(),
        );
        let plan = results::Study {
            name: "compute".to_owned(),
            title: "Echo with work in each answer".to_owned(),
            question: "The same with 20 and 200 us of work before each answer, on one worker and on two. The line is what \
                the work alone allows, and by Little's law the latency that this rate means."
                .to_owned(),
            facts: Vec::new(),
            notes,
            subjects: contest.subjects.clone(),
            panels: setups.iter().map(Setup::panel).collect(),
        };
        Ok(Compute {
            contest,
            setups,
            seconds: measuring.seconds,
            plan,
        })
    }
}

impl Setup {
    fn panel(&self) -> Panel {
        let Setup {
            compute_us,
            workers,
            ..
        } = *self;
        let plural = if workers == 1 { "" } else { "s" };
        let title = format!("{compute_us} us of work, {workers} worker{plural}");
        let points = CONNECTIONS
            .iter()
            .map(|&count| Point::number(f64::from(count)));
        let limits = CONNECTIONS
            .iter()
            .map(|&count| limit(workers, compute_us, count));
        let (rates, latencies_us) = limits.unzip();
        let mut panel = Panel::new(&title, "connections", points.collect(), metrics());
        let limits = [
            ("what the work allows", "rate", rates),
            ("Little's law", "p50", latencies_us),
        ];
        for (name, metric, figures) in limits {
            let limit = panel.metric(metric).map(|metric| Limit {
                name: name.to_owned(),
                metric,
                figures,
            });
            panel.limits.extend(limit);
        }
        panel
    }
}

/// What no server can surpass, were all but the work free: answers per second, and, by Little's law, the mean
/// latency in microseconds at that rate.
fn limit(workers: usize, compute_us: u64, connections: u32) -> (f64, f64) {
    let busy = f64::from(connections).min(workers as f64);
    let rate = busy * 1e6 / compute_us as f64;
    (rate, f64::from(connections) * 1e6 / rate)
}

impl Study for Compute {
    fn plan(&self) -> &results::Study {
        &self.plan
    }

    fn measure(&mut self, cell: Cell) -> Result<Taken> {
        let setup = &self.setups[cell.panel];
        let load = Load::closed(self.seconds, setup.place.is_apart());
        let asked = Asked {
            place: &setup.place,
            workers: setup.workers,
            compute_us: setup.compute_us,
            load: &load.with_connections(CONNECTIONS[cell.point]),
        };
        self.contest.measure(cell.subject, &asked, cell.round == 0)
    }

    fn seconds_each(&self) -> f64 {
        self.seconds as f64 + AROUND_SECONDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_limits_the_rate_and_the_rate_the_latency() {
        assert_eq!(limit(1, 1, 1), (1e6, 1.0));
        assert_eq!(limit(2, 20, 1), (50e3, 20.0));
        assert_eq!(limit(2, 20, 500), (100e3, 5e3));
        assert_eq!(limit(2, 200, 500), (10e3, 50e3));
    }
}
