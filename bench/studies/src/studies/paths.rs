//! The ways in which a server on a ring can accept, read and send: the same echo server with each.
//!
//! The first subject does what sockets of the library do by themselves. The others are
//! alternatives.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::net::sockopt::set_socket_linger;
use uthread_report::measure::Taken;
use uthread_report::measure::quiet::Window;
use uthread_report::results::{Panel, Point, Subject};
use uthread_report::study::{Cell, Study};

use super::parse_workers;
use super::plan;
use super::server_study::{self, AROUND_SECONDS, metrics_with_memory};
use crate::alone::Alone;
use crate::cpu_split::CpuSplit;
use crate::limits;
use crate::load::{Load, WARM_UP_SECONDS};
use crate::peers;
use crate::servers::Server;

/// The subjects, and the option of `own echo` that chooses their requests.
const WAYS: [(&str, &str); 6] = [
    ("own", "--way=own"),
    ("requests", "--way=requests"),
    ("reads by requests", "--way=reads"),
    ("multishot reads", "--way=multishot-reads"),
    ("readiness", "--way=readiness"),
    ("multishot accepts", "--way=multishot-accepts"),
];
const OWN: usize = 0;
const MULTISHOT_ACCEPTS: usize = 5;

/// Indices of the panels.
const TRAFFIC: usize = 0;
const LATENCY: usize = 1;
const ACCEPTS: usize = 2;

/// Connections over which messages arrive at a fixed rate.
const LATENCY_CONNECTIONS: u32 = 50;
/// Clients that connect at the same time: enough that one always waits to be accepted.
const CALLERS: u32 = 16;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) alone: Alone,
    /// Numbers of connections that send as soon as they have been answered, a point for each
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000,10000",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: Vec<u32>,
    /// Messages per second over 50 connections, for the latency of a server that is not saturated
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: u64,
    /// Number of workers of each server; the load gets the other CPUs, or shares all if none are
    /// left
    #[arg(long, default_value_t = 1, value_parser = parse_workers)]
    workers: usize,
}

pub(crate) fn study(args: &Args) -> Result<Study> {
    let measuring = &args.alone.measuring;
    let split = CpuSplit::apart_or_shared(args.workers)?;
    let program = peers::own("uthread", &[])?;
    let metrics = metrics_with_memory();
    let panel = |title: &str, axis, points: &[u32], count| {
        Panel::new(
            title,
            axis,
            Point::numbers(points),
            metrics[..count].to_vec(),
        )
    };
    let all = metrics.len();
    let open_loop = format!("{} messages a second", args.rate);
    let panels = vec![
        panel("closed loop", "connections", &args.connections, all),
        panel(&open_loop, "connections", &[LATENCY_CONNECTIONS], all),
        // Only rate and CPU, each for a connection.
        panel("a connection for each message", "clients", &[CALLERS], 2),
    ];
    let notes = vec![split.describe(args.workers)];
    let subjects = WAYS.map(|(name, _)| Subject::ours(name));
    let plan = plan("paths", notes, subjects.to_vec(), panels);
    let (connections, rate, workers) = (
        args.connections.clone(),
        args.rate,
        args.workers.to_string(),
    );
    let (seconds, quiet_wait) = (measuring.seconds, measuring.quiet_wait());
    let measure = move |cell: Cell| {
        let (_, way) = WAYS[cell.subject];
        let arguments = ["echo", "0", &*workers, "0", way];
        let start = || Server::start_peer(&program, &split.server_cpus, &arguments);
        if cell.panel == ACCEPTS {
            let server = start()?;
            let window = Window::open(Some(server.pid()), quiet_wait)?;
            let begin = Instant::now();
            let calls = call_again(server.address(), Duration::from_secs(seconds))? as f64;
            let elapsed = begin.elapsed().as_secs_f64();
            let usage = window.close()?;
            let cpu_us = usage.server.total_ns() as f64 / 1e3 / calls;
            let figures = vec![calls / elapsed, cpu_us];
            return Ok(Taken { figures, usage });
        }
        let (connections, rate) = match cell.panel {
            LATENCY => (LATENCY_CONNECTIONS, Some(rate)),
            _ => (connections[cell.point], None),
        };
        let load = Load {
            rate,
            warm_up_seconds: WARM_UP_SECONDS,
            ..Load::closed(connections, seconds, split.is_apart())
        };
        limits::check(u64::from(connections), false)?;
        let measured = server_study::measure(&start()?, &split, &load, quiet_wait, false)?;
        Ok(measured.taken_with_memory())
    };
    let seconds_each = (seconds + WARM_UP_SECONDS) as f64 + AROUND_SECONDS;
    let applies = |panel, subject| match subject {
        OWN => true,
        MULTISHOT_ACCEPTS => panel == ACCEPTS,
        _ => panel == TRAFFIC || panel == LATENCY,
    };
    Ok(Study::new(plan, seconds_each, measure).where_it(applies))
}

/// Returns how many connections the clients could open in this time, each for one message.
fn call_again(address: SocketAddr, duration: Duration) -> Result<u64> {
    let (calls, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let client = || -> Result<()> {
        while !over.load(Ordering::Relaxed) {
            call(address).context("call the server")?;
            calls.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CALLERS).map(|_| scope.spawn(client)).collect();
        thread::sleep(duration);
        over.store(true, Ordering::Relaxed);
        let mut clients = clients.into_iter();
        clients.try_for_each(|client| client.join().expect("the client does not panic"))
    })?;
    Ok(calls.into_inner())
}

fn call(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    // Closing then leaves no port behind in TIME_WAIT.
    set_socket_linger(&stream, Some(Duration::ZERO))?;
    stream.write_all(b"one message each")?;
    Ok(stream.read_exact(&mut [0; 16])?)
}
