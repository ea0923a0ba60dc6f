//! By which requests should a server accept, read and send? The same echo server, on a ring, with each.
//!
//! What a socket does by itself in the library is the first of each; the others are there to be chosen instead.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use rustix::net::sockopt::set_socket_linger;
use serde_json::{Value, json};

use crate::load::{Load, WARM_UP_SECONDS};
use crate::measure::held::Held;
use crate::measure::quiet::{Usage, Window};
use crate::measure::rounds::{Taken, interleave};
use crate::own::echo::{Accepts, Reads, Sends};
use crate::peers::{self, Program};
use crate::place::Place;
use crate::report::{Metric, Table, write_json};
use crate::say::tell;
use crate::servers::Server;
use crate::setup::{OPEN_FILES_SPARE, raise_open_files};
use crate::{Rounds, parse_workers};

const ANSWERS: &[Metric] = &[
    Metric::new("answers/s", 0),
    Metric::new("server CPU us/answer", 2),
    Metric::new("p50 us", 1),
    Metric::new("p99 us", 1),
    Metric::new("p99.9 us", 1),
    Metric::new("RSS B/connection", 0),
    Metric::new("kernel B/connection", 0),
];

const CONNECTIONS: &[Metric] = &[
    Metric::new("connections/s", 0),
    Metric::new("server CPU us/connection", 2),
];

/// What is read and sent by; the first is the library's own.
const TRAFFIC: [(&str, Reads, Sends); 5] = [
    ("own", Reads::Own, Sends::Own),
    ("requests", Reads::Requests, Sends::Requests),
    ("reads by requests", Reads::Requests, Sends::Own),
    ("multishot reads", Reads::Multishot, Sends::Own),
    ("readiness", Reads::Readiness, Sends::Own),
];

/// Over which messages come at a fixed rate.
const LATENCY_CONNECTIONS: u32 = 50;

/// Who connects at the same time: enough that one is always waiting to be accepted.
const CALLERS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Part {
    /// Connections that send as soon as they have been answered
    Traffic,
    /// Messages at a fixed rate
    Latency,
    /// Connections for one message each
    Accepts,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    rounds: Rounds,
    /// What is measured
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "traffic,latency,accepts"
    )]
    parts: Vec<Part>,
    /// Connections of the traffic, a table for each
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000,10000",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: Vec<u32>,
    /// Messages per second over 50 connections, for the latency: of a server that is not saturated
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: u64,
    /// Workers of each server; the load gets the CPUs they leave, and shares theirs if they leave none
    #[arg(long, default_value_t = 1, value_parser = parse_workers)]
    workers: usize,
    /// Length of one measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let most = args.connections.iter().max().copied().unwrap_or(1);
    raise_open_files(u64::from(most) + OPEN_FILES_SPARE)?;
    let place = Place::apart_or_shared(args.workers)?;
    place.pin_load()?;
    let study = Study {
        args,
        place,
        program: peers::own("uthread", &["own"])?,
    };
    let mut tables = Vec::new();
    for part in &args.parts {
        match part {
            Part::Traffic => {
                for &connections in &args.connections {
                    tables.push(study.compare_traffic(connections, None)?);
                }
            }
            Part::Latency => {
                tables.push(study.compare_traffic(LATENCY_CONNECTIONS, Some(args.rate))?);
            }
            Part::Accepts => tables.push(study.compare_accepts()?),
        }
    }
    tables.iter().for_each(Table::print);
    let setup = study.place.to_json(args.workers);
    let tables: Vec<Value> = tables.iter().map(Table::to_json).collect();
    write_json(
        args.rounds.json.as_deref(),
        &json!({ "study": "paths", "setup": setup, "tables": tables }),
    )
}

struct Study<'a> {
    args: &'a Args,
    place: Place,
    program: Program,
}

impl Study<'_> {
    fn compare_traffic(&self, connections: u32, rate: Option<u64>) -> Result<Table> {
        let load = Load {
            connections,
            warm_up_seconds: WARM_UP_SECONDS,
            seconds: self.args.seconds,
            rate,
            spin: self.place.is_apart(),
            ..Load::default()
        };
        let title = match rate {
            Some(rate) => format!("{connections} connections, {rate} messages/s"),
            None => format!("{connections} connections"),
        };
        let names = TRAFFIC.map(|(name, ..)| name.to_owned());
        self.compare(title, ANSWERS, &names, |subject| {
            let (_, reads, sends) = TRAFFIC[subject];
            self.measure_traffic(&load, &[name("reads", reads), name("sends", sends)])
        })
    }

    fn measure_traffic(&self, load: &Load, ways: &[String]) -> Result<Taken> {
        let server = self.start(ways)?;
        let pid = server.pid();
        let mut window = Window::open(Some(pid), self.args.rounds.quiet_wait())?;
        let before = Held::read(pid)?;
        let mut running = load.start(&self.place.load_cpus, server.address())?;
        window.restart()?;
        let report = running.run()?;
        let usage = window.close()?;
        let [resident, kernel, ..] = Held::read(pid)?.since(&before, load.connections);
        let figures = vec![
            report.per_second,
            cpu_us(&usage, report.answered),
            report.p50_us,
            report.p99_us,
            report.p999_us,
            resident,
            kernel,
        ];
        Ok(Taken { figures, usage })
    }

    fn compare_accepts(&self) -> Result<Table> {
        let ways = Accepts::value_variants();
        let names: Vec<String> = ways.iter().map(|way| format!("{way:?} accepts")).collect();
        let title = format!("{CALLERS} callers, a message each time");
        self.compare(title, CONNECTIONS, &names, |subject| {
            self.measure_accepts(&[name("accepts", ways[subject])])
        })
    }

    fn measure_accepts(&self, ways: &[String]) -> Result<Taken> {
        let server = self.start(ways)?;
        let window = Window::open(Some(server.pid()), self.args.rounds.quiet_wait())?;
        let begin = Instant::now();
        let calls = call_again(server.address(), Duration::from_secs(self.args.seconds))?;
        let seconds = begin.elapsed().as_secs_f64();
        let usage = window.close()?;
        let figures = vec![calls as f64 / seconds, cpu_us(&usage, calls)];
        Ok(Taken { figures, usage })
    }

    fn start(&self, ways: &[String]) -> Result<Server> {
        let workers = self.args.workers.to_string();
        let mut arguments = vec!["echo", "0", &workers, "0"];
        arguments.extend(ways.iter().map(String::as_str));
        Server::start_peer(&self.program, &self.place.server_cpus, &arguments)
    }

    /// The first beside each of the others.
    fn compare(
        &self,
        title: String,
        metrics: &'static [Metric],
        subjects: &[String],
        measure: impl FnMut(usize) -> Result<Taken>,
    ) -> Result<Table> {
        let (rounds, seconds) = (self.args.rounds.rounds, self.args.seconds);
        let progress = |round, subject: usize| {
            tell!("{title}: round {} {}", round + 1, subjects[subject]);
        };
        let taken = interleave(subjects.len(), rounds as usize, progress, measure)?;
        let workers = self.args.workers;
        Ok(Table {
            title: format!(
                "{title}, {workers} worker(s), {rounds} rounds of {seconds} s; median (min..max)"
            ),
            metrics,
            subjects: subjects.to_vec(),
            taken,
            comparisons: (1..subjects.len()).map(|other| (other, 0)).collect(),
        })
    }
}

fn cpu_us(usage: &Usage, count: u64) -> f64 {
    usage.server.total_ns() as f64 / 1e3 / count as f64
}

/// As the server takes it.
fn name(option: &str, value: impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("none is hidden");
    format!("--{option}={}", value.get_name())
}

/// How many connections the callers could open, each for one message, in this time.
fn call_again(address: SocketAddr, duration: Duration) -> Result<u64> {
    let (calls, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let caller = || -> Result<()> {
        while !over.load(Ordering::Relaxed) {
            call(address).context("call the server")?;
            calls.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(caller)).collect();
        thread::sleep(duration);
        over.store(true, Ordering::Relaxed);
        callers
            .into_iter()
            .try_for_each(|caller| caller.join().expect("it does not panic"))
    })?;
    Ok(calls.into_inner())
}

fn call(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    // It leaves no port behind that waits for what is under way.
    set_socket_linger(&stream, Some(Duration::ZERO))?;
    let mut answer = [0; 16];
    stream.write_all(b"one message each")?;
    Ok(stream.read_exact(&mut answer)?)
}
