//! Asks a server over many connections, an echo of it or a file, and checks every answer.
//!
//! A closed loop sends on a connection as soon as its answer has come, which finds the rate; an open loop sends when
//! a message is due, whatever has become of the ones before, which finds the latency. One thread and one epoll
//! instance: it takes little CPU from the server and shares no code with the one it judges.

mod connection;
mod crowd;
mod exchange;
mod generator;
mod schedule;
mod tally;

pub(crate) use crowd::Crowd;
pub(crate) use exchange::Exchange;
pub(crate) use generator::run as run_over;

use std::env;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::servers::pinned;

/// A server that leaves a message unanswered for so long has failed.
const ANSWER_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, clap::Args)]
// Its group would have the name of the subcommand's.
#[group(skip)]
pub(crate) struct Load {
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// Prints the report, for [`Load::run_on`] to read.
pub(crate) fn run(address: SocketAddr, load: &Load) -> Result<()> {
    let mut crowd = Crowd::new(Exchange::Echo)?;
    crowd.connect(address, load.connections as usize)?;
    let report = generator::run(&mut crowd, load)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

impl Load {
    /// Runs in a process of its own on these CPUs.
    pub(crate) fn run_on(&self, cpus: &[usize], address: SocketAddr) -> Result<Report> {
        let own = env::current_exe().context("find this program's own path")?;
        let output = pinned(cpus, &own)
            .args(["load", &address.to_string()])
            .args(self.to_arguments())
            .stderr(Stdio::inherit())
            .stdout(Stdio::piped())
            .output()
            .context("run taskset")?;
        ensure!(
            output.status.success(),
            "the load failed: {}",
            output.status
        );
        serde_json::from_slice(&output.stdout).context("read the report of the load")
    }

    fn to_arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--connections={}", self.connections),
            format!("--warm-up-seconds={}", self.warm_up_seconds),
            format!("--seconds={}", self.seconds),
        ];
        arguments.extend(self.rate.map(|rate| format!("--rate={rate}")));
        arguments.extend(self.spin.then(|| "--spin".to_owned()));
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        load: Load,
    }

    #[test]
    fn a_process_of_its_own_gets_the_same_load() {
        let closed = Load {
            connections: 500,
            warm_up_seconds: 0,
            seconds: 3,
            rate: None,
            spin: false,
        };
        let open = Load {
            rate: Some(12_345),
            spin: true,
            ..closed.clone()
        };
        for load in [closed, open] {
            let arguments = load.to_arguments();
            let parsed = Program::parse_from(["load".to_owned()].into_iter().chain(arguments));
            assert_eq!(parsed.load, load);
        }
    }
}
