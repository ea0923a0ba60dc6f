//! A server that is not saturated, open loop: how late is an answer when there is CPU for all of them?
//!
//! Here workers fall asleep and have to be woken, of which a closed loop shows nothing.

use anyhow::Result;
use serde_json::json;

use crate::bench::{Bench, WARM_UP_SECONDS};
use crate::load::{Load, Report};
use crate::peers;
use crate::place::Place;
use crate::report::{Metric, write_json};
use crate::setup::{OPEN_FILES_SPARE, raise_open_files};
use crate::{Rounds, parse_workers};

/// Of what our server can do: low enough that workers sleep between messages, in whichever runtime.
const LOAD_PERCENT: u64 = 20;

const METRICS: &[Metric] = &[
    Metric::new("answers/s", 0),
    Metric::new("server CPU us/answer", 2),
    Metric::new("p50 us", 1),
    Metric::new("p99 us", 1),
    Metric::new("p99.9 us", 1),
    Metric::new("max us", 0),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    rounds: Rounds,
    /// Workers of each server; the load gets the CPUs they leave, and shares theirs if they leave none
    #[arg(long, default_value_t = 1, value_parser = parse_workers)]
    workers: usize,
    /// Length of one measurement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Connections over which the messages are spread
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Messages per second to each server [default: 20 % of what ours can answer, measured first]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    raise_open_files(u64::from(args.connections) + OPEN_FILES_SPARE)?;
    let place = Place::apart_or_shared(args.workers)?;
    let spin = place.is_apart();
    let bench = Bench {
        rounds: &args.rounds,
        place,
        programs: peers::echo_servers()?,
        workers: args.workers,
    };
    let closed = Load {
        connections: args.connections,
        warm_up_seconds: WARM_UP_SECONDS,
        seconds: args.seconds,
        spin,
        ..Load::default()
    };
    let rate = match args.rate {
        Some(rate) => rate,
        None => rate_to_offer(&bench, &closed)?,
    };
    let open = Load {
        rate: Some(rate),
        ..closed
    };
    let beside = if spin { "apart from" } else { "beside" };
    let title = format!("echo at {rate}/s, the load {beside} the server");
    let table = bench.compare(&title, 0, &open, METRICS, figures)?;
    table.print();
    let setup = bench.place.to_json(args.workers);
    write_json(
        args.rounds.json.as_deref(),
        &json!({ "study": "latency", "setup": setup, "tables": [table.to_json()] }),
    )
}

/// The same for all servers, so that a slow one does not look good by being asked less.
fn rate_to_offer(bench: &Bench, closed: &Load) -> Result<u64> {
    let program = &bench.programs[0];
    eprintln!("measuring what {} can answer", program.name);
    let (report, _) = bench.measure(program, 0, closed)?;
    let capacity = report.per_second as u64;
    eprintln!("{capacity}/s, of which {LOAD_PERCENT} % are offered");
    Ok((capacity * LOAD_PERCENT / 100).max(1))
}

fn figures(report: &Report, cpu_us: f64) -> Vec<f64> {
    vec![
        report.per_second,
        cpu_us,
        report.p50_us,
        report.p99_us,
        report.p999_us,
        report.max_us,
    ]
}
