//! Many connections and work in each answer, closed loop: what is left of the CPUs for the work, and who waits how long?

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::bench::{Bench, WARM_UP_SECONDS};
use crate::load::{Load, Report};
use crate::peers;
use crate::place::Place;
use crate::report::{Metric, write_json};
use crate::setup::{OPEN_FILES_SPARE, raise_open_files};
use crate::{Rounds, parse_workers};

const METRICS: &[Metric] = &[
    Metric::new("answers/s", 0),
    Metric::new("server CPU us/answer", 2),
    Metric::new("p50 us", 0),
    Metric::new("p99 us", 0),
    Metric::new("p99.9 us", 0),
    Metric::new("most served connection", 0),
    Metric::new("least served connection", 0),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    rounds: Rounds,
    /// Workers of each server, which share all CPUs with the load
    #[arg(long, default_value_t = 2, value_parser = parse_workers)]
    workers: usize,
    /// Length of one measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Connections that send as soon as they have been answered
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Microseconds of work in each answer, a table for each
    #[arg(long, value_delimiter = ',', default_value = "0,20,200",
        value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    compute_us: Vec<u64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    raise_open_files(u64::from(args.connections) + OPEN_FILES_SPARE)?;
    let bench = Bench {
        rounds: &args.rounds,
        place: Place::shared(args.workers)?,
        programs: peers::echo_servers()?,
        workers: args.workers,
    };
    let load = Load {
        connections: args.connections,
        warm_up_seconds: WARM_UP_SECONDS,
        seconds: args.seconds,
        ..Load::default()
    };
    let mut tables = Vec::new();
    for &compute_us in &args.compute_us {
        let title = format!("echo after {compute_us} us of work");
        let table = bench.compare(&title, compute_us, &load, METRICS, figures)?;
        table.print();
        if let Some(limit) = Limit::of(args.workers, compute_us, args.connections) {
            println!("  {}", limit.show());
        }
        tables.push(table.to_json());
    }
    let setup = bench.place.to_json(args.workers);
    write_json(
        args.rounds.json.as_deref(),
        &json!({ "study": "echo", "setup": setup, "tables": tables }),
    )
}

fn figures(report: &Report, cpu_us: f64) -> Vec<f64> {
    vec![
        report.per_second,
        cpu_us,
        report.p50_us,
        report.p99_us,
        report.p999_us,
        report.most_served as f64,
        report.least_served as f64,
    ]
}

/// What no server can surpass, were all but the work free.
#[derive(Debug, PartialEq)]
struct Limit {
    per_second: f64,
    /// By Little's law: as many connections wait as answers come in this time.
    mean_latency: Duration,
}

impl Limit {
    /// `None` without work.
    fn of(workers: usize, compute_us: u64, connections: u32) -> Option<Limit> {
        let compute = Duration::from_micros(compute_us);
        let busy = connections.min(workers as u32);
        (!compute.is_zero()).then(|| Limit {
            per_second: f64::from(busy) / compute.as_secs_f64(),
            mean_latency: compute * connections / busy,
        })
    }

    fn show(&self) -> String {
        format!(
            "the work alone allows {:.0} answers/s, and so (Little's law) a mean latency of {} us",
            self.per_second,
            self.mean_latency.as_micros()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_limits_the_rate_and_the_rate_the_latency() {
        assert_eq!(Limit::of(2, 0, 500), None);
        let check = |workers, compute_us, connections, expected: &str| {
            let shown = Limit::of(workers, compute_us, connections).unwrap().show();
            assert!(
                shown.contains(expected),
                "{shown:?} does not say {expected:?}"
            );
        };
        check(1, 1, 1, "1000000 answers/s");
        check(2, 20, 1, "50000 answers/s");
        check(2, 20, 500, "100000 answers/s");
        check(2, 20, 500, "latency of 5000 us");
        check(2, 200, 500, "10000 answers/s");
        check(2, 200, 500, "latency of 50000 us");
    }
}
