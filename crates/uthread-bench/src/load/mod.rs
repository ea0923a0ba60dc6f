//! Asks an echo server over many connections and checks every answer.
//!
//! A closed loop sends on a connection as soon as its answer has come, which finds the rate; an open loop sends when
//! a message is due, whatever has become of the ones before, which finds the latency. One thread and one epoll
//! instance: it takes little CPU from the server and shares no code with the one it judges.

mod connection;
mod generator;
mod schedule;
mod tally;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

/// A server that leaves a message unanswered for so long has failed.
const ANSWER_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, clap::Args)]
pub(crate) struct Load {
    /// Where the server listens
    pub(crate) address: SocketAddr,
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Seconds of load before what is measured
    #[arg(long)]
    pub(crate) warm_up_seconds: u64,
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// Messages per second over all connections, as an open loop [default: a closed loop]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
    /// Never sleep: for a load with a CPU of its own, of whose waking up the figures should not tell
    #[arg(long)]
    pub(crate) spin: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Report {
    /// All messages, also those of the warm-up. All else is of the measured time.
    pub(crate) answered: u64,
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
    /// Answers on the connection that got the most.
    pub(crate) most_served: u64,
    pub(crate) least_served: u64,
}

/// Prints the report.
pub(crate) fn run(load: &Load) -> Result<()> {
    let report = generator::run(load)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
