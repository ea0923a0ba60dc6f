//! Sets the echo servers of all runtimes beside each other under one load.

use anyhow::{Context, Result};

use crate::Rounds;
use crate::load::{Load, Report};
use crate::measure::quiet::{Usage, Window, wait_until_quiet};
use crate::measure::rounds::{Taken, interleave};
use crate::peers::Program;
use crate::place::Place;
use crate::report::{Metric, Table};
use crate::servers::Server;

/// Long enough that all connections are accepted and a garbage collector knows its heap.
pub(crate) const WARM_UP_SECONDS: u64 = 1;

pub(crate) struct Bench<'a> {
    pub(crate) rounds: &'a Rounds,
    pub(crate) programs: Vec<Program>,
    pub(crate) workers: usize,
    pub(crate) place: Place,
}

impl Bench<'_> {
    /// One table, in which each program stands beside the first. `figures` are those of `metrics`, from a report and
    /// the server's CPU time per answer in microseconds.
    pub(crate) fn compare(
        &self,
        title: &str,
        compute_us: u64,
        load: &Load,
        metrics: &'static [Metric],
        figures: impl Fn(&Report, f64) -> Vec<f64>,
    ) -> Result<Table> {
        let count = self.programs.len();
        let rounds = self.rounds.rounds;
        let progress = |round, subject: usize| {
            let name = self.programs[subject].name;
            eprintln!("{title}: round {} {name}", round + 1);
        };
        let taken = interleave(count, rounds as usize, progress, |subject| {
            let (report, usage) = self.measure(&self.programs[subject], compute_us, load)?;
            let cpu_us = usage.server.total_ns() as f64 / 1e3 / report.answered as f64;
            Ok(Taken {
                figures: figures(&report, cpu_us),
                usage,
            })
        })?;
        let names = self.programs.iter().map(|program| program.name.to_owned());
        Ok(Table {
            title: format!(
                "{title}: {} connections, {} worker(s), {rounds} rounds of {} s; median (min..max)",
                load.connections, self.workers, load.seconds
            ),
            metrics,
            subjects: names.collect(),
            taken,
            comparisons: (1..count).map(|peer| (0, peer)).collect(),
        })
    }

    /// On a server of its own: what one has misjudged, its amount of work above all, stays in one round.
    pub(crate) fn measure(
        &self,
        program: &Program,
        compute_us: u64,
        load: &Load,
    ) -> Result<(Report, Usage)> {
        let quiet_wait = self.rounds.quiet_wait();
        // A server calibrates its work when it starts: that has to be quiet too.
        wait_until_quiet(None, quiet_wait)?;
        let arguments = [self.workers.to_string(), compute_us.to_string()];
        let server = Server::start_echo(program, &self.place.server_cpus, &arguments)
            .with_context(|| format!("start {}", program.name))?;
        let mut window = Window::open(Some(server.pid()), quiet_wait)?;
        let measuring = || format!("measure {}", program.name);
        let (cpus, address) = (&self.place.load_cpus, server.address());
        let mut running = load.start(cpus, address).with_context(measuring)?;
        window.restart()?;
        let report = running.run().with_context(measuring)?;
        Ok((report, window.close()?))
    }
}
