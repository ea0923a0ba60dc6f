//! What do thousands of idle keep-alive connections cost the busy ones, and how much memory does each hold?
//!
//! Every measurement starts its own server: a server that has once held N connections keeps memory for them, so a
//! second look at the same process would find them free of charge.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::check_served;
use crate::Common;
use crate::client::Connection;
use crate::files::{Files, Size};
use crate::measure::proc::{self, Memory};
use crate::measure::quiet::Window;
use crate::measure::rounds::{Taken, interleave};
use crate::report::{Metric, Table, write_json};
use crate::say::tell;
use crate::servers::{Peer, Server};
use crate::setup::{OPEN_FILES_SPARE, Setup, find_program};
use crate::wrk::{self, Load, Report};

/// Small, so that the cost per request is the connection's and not the file's.
const FILE: &str = "1KiB";
/// Brings the busy connections' memory into being before the idle ones' is measured.
const WARM_UP_SECONDS: u64 = 1;

const METRICS: &[Metric] = &[
    Metric::new("requests/s", 0),
    Metric::new("server CPU us/request", 2),
    Metric::new("p99 us", 0),
    Metric::new("RSS B/idle", 0),
    Metric::new("PSS B/idle", 0),
    Metric::new("anonymous B/idle", 0),
    Metric::new("idle ones closed", 0),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Idle keep-alive connections, each of which has made one request
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    idle: u64,
    /// Connections that request without pause
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    connections: u64,
    /// Rounds; each measures every server without and with the idle connections
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Length of one measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let wrk = find_program("wrk")?;
    // A server may hold the file open besides the socket of a busy connection.
    let open_files = args.idle + 2 * args.connections + OPEN_FILES_SPARE;
    let setup = Setup::prepare(&args.common, &Peer::BOTH, open_files)?;
    let size: Size = FILE.parse().map_err(anyhow::Error::msg)?;
    let files = Files::create(std::slice::from_ref(&size))?;
    let mut study = Study {
        args,
        setup,
        wrk,
        files,
        size,
        memory: Vec::new(),
    };
    let table = study.measure()?;
    table.print();
    let json = json!({
        "study": "idle",
        "setup": study.setup.to_json(),
        "idle": args.idle,
        "tables": [table.to_json()],
        "memory": study.memory,
    });
    write_json(args.common.json.as_deref(), &json)
}

struct Study<'a> {
    args: &'a Args,
    setup: Setup,
    wrk: PathBuf,
    files: Files,
    size: Size,
    /// Of each measurement with idle connections, in the order taken; also of those then repeated.
    memory: Vec<Value>,
}

impl Study<'_> {
    fn measure(&mut self) -> Result<Table> {
        let Args {
            idle,
            connections,
            rounds,
            seconds,
            ..
        } = *self.args;
        let peers = self.setup.peers.clone();
        // Each peer is two subjects: alone, and with the idle connections.
        let subjects: Vec<String> = peers
            .iter()
            .flat_map(|peer| [format!("{peer}"), format!("{peer}, {idle} idle")])
            .collect();
        let progress = |round, subject: usize| tell!("round {} {}", round + 1, subjects[subject]);
        let taken = interleave(subjects.len(), rounds as usize, progress, |subject| {
            self.measure_once(peers[subject / 2], if subject % 2 == 1 { idle } else { 0 })
        })?;
        let mut comparisons: Vec<(usize, usize)> = (0..peers.len())
            .map(|peer| (2 * peer + 1, 2 * peer))
            .collect();
        if peers.len() == 2 {
            comparisons.push((1, 3));
        }
        Ok(Table {
            title: format!(
                "{connections} busy connections, {rounds} rounds of {seconds} s; median (min..max)"
            ),
            metrics: METRICS,
            subjects,
            taken,
            comparisons,
        })
    }

    fn measure_once(&mut self, peer: Peer, idle: u64) -> Result<Taken> {
        let connections_max = (self.args.idle + self.args.connections) as usize;
        let server = self.setup.start(peer, self.files.path(), connections_max)?;
        check_served(&server, &self.size)?;
        self.load(&server, WARM_UP_SECONDS)?;
        let without = proc::tree_memory(server.pid())?;
        let crowd = open_idle(&server, idle, &self.size)?;
        let with = proc::tree_memory(server.pid())?;
        let window = Window::open(Some(server.pid()), self.setup.quiet_wait)?;
        let report = self.load(&server, self.args.seconds)?;
        let usage = window.close()?;
        let mut closed = 0_u64;
        for connection in &crowd {
            closed += u64::from(!connection.is_open()?);
        }
        if idle > 0 {
            let (server, without, with) = (peer.to_string(), without.to_json(), with.to_json());
            self.memory
                .push(json!({ "server": server, "without": without, "with": with }));
        }
        let mut figures = vec![
            report.requests_per_second,
            usage.server.total_ns() as f64 / 1e3 / report.requests as f64,
            report.p99_us,
        ];
        figures.extend(bytes_per_connection(without, with, idle));
        figures.push(if idle > 0 { closed as f64 } else { f64::NAN });
        Ok(Taken { figures, usage })
    }

    fn load(&self, server: &Server, seconds: u64) -> Result<Report> {
        wrk::run(&Load {
            program: &self.wrk,
            url: &format!("http://{}/{}", server.address(), self.size.name),
            threads: self.setup.place.load_cpus.len(),
            connections: self.args.connections as usize,
            seconds,
        })
    }
}

fn open_idle(server: &Server, idle: u64, size: &Size) -> Result<Vec<Connection>> {
    let path = format!("/{}", size.name);
    let open = |index: u64| -> Result<Connection> {
        let mut connection = Connection::open(server.address())?;
        let head = connection.get(&path, |_| Ok(()))?;
        ensure!(
            head.status == 200 && !head.closes,
            "idle connection {index} was answered with {head:?}"
        );
        Ok(connection)
    };
    (0..idle)
        .map(|index| open(index).with_context(|| format!("open idle connection {index}")))
        .collect()
}

/// RSS, PSS and anonymous bytes. `NAN` without idle connections; negative if the server shrank.
fn bytes_per_connection(without: Memory, with: Memory, idle: u64) -> [f64; 3] {
    let pairs = [
        (without.rss_bytes, with.rss_bytes),
        (without.pss_bytes, with.pss_bytes),
        (without.anonymous_bytes, with.anonymous_bytes),
    ];
    pairs.map(|(without, with)| {
        if idle == 0 {
            f64::NAN
        } else {
            (with as f64 - without as f64) / idle as f64
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shared_out_over_the_idle_connections() {
        let memory = |rss_bytes, pss_bytes, anonymous_bytes| Memory {
            rss_bytes,
            pss_bytes,
            anonymous_bytes,
        };
        let (without, with) = (memory(1000, 900, 800), memory(3000, 2000, 700));
        assert_eq!(
            bytes_per_connection(without, with, 10),
            [200.0, 110.0, -10.0]
        );
        assert!(
            bytes_per_connection(without, with, 0)
                .iter()
                .all(|bytes| bytes.is_nan())
        );
    }
}
