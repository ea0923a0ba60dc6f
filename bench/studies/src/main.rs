//! `uthread-bench`: measures `uthread serve` beside nginx, fibers beside other runtimes and the drivers beside each other.
//!
//! Exit codes: 0 measured, 1 it failed or found a mismatch, 2 it cannot start here or was asked wrongly.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod client;
mod files;
mod hostile;
mod limits;
mod load;
mod measure;
mod merge;
mod mode;
mod own;
mod paced;
mod page;
mod peers;
mod place;
mod report;
mod results;
mod say;
mod servers;
mod setup;
mod studies;
mod study;
mod summary;
mod targets;
mod wrk;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::say::tell;
use crate::study::Alone;
use measure::calls;
use measure::quiet::QUIET_WAIT_SECONDS_MAX;
use servers::Peer;
use setup::Unavailable;
use studies::{
    compute, disk, drivers, echo, http, idle, latency, load_check, micro, paths, report as all,
    requests, slow, threads, verify,
};

const FAILED: u8 = 1;
const UNAVAILABLE: u8 = 2;

/// Measure `uthread serve` beside nginx, fibers beside other runtimes, and drivers beside each other
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    study: Study,
}

#[derive(Subcommand)]
enum Study {
    /// Reads of 4 KiB past the page cache, beside fio: rate, CPU, latency
    Disk(disk::Args),
    /// The same program on each driver, at 1 to 10,000 connections: rate, server CPU, latency, memory
    Drivers(drivers::Args),
    /// Messages of 16 bytes and work in each answer, beside other runtimes: rate, server CPU, latency, fairness
    Compute(Alone),
    /// Messages of 16 bytes over 1 to 15,000 connections, beside other runtimes: rate, server CPU, latency, fairness
    Echo(echo::Args),
    /// Static files and a fixed response, beside other servers: rate, server CPU, latency
    Http(http::Args),
    /// The same while thousands of idle connections are open, and the memory of each
    Idle(idle::Args),
    /// Messages at a fixed rate to servers that are not saturated, beside other runtimes: latency, server CPU
    Latency(latency::Args),
    /// The system calls and context switches of a process and its descendants
    #[command(hide = true)]
    Calls {
        pid: u32,
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=600))]
        seconds: u64,
    },
    /// The load on an echo server
    #[command(hide = true)]
    Load {
        /// Where the server listens
        address: SocketAddr,
        #[command(flatten)]
        load: load::Load,
    },
    /// nginx under our load generator, wrk and oha: do they see the same?
    LoadCheck(load_check::Args),
    /// Fibers alone, beside other runtimes: spawning, yielding, memory, messages
    Micro(micro::Args),
    /// Draw the page of a report again, from its JSON
    Page(page::Args),
    /// The ways in which a server on a ring can accept, read and send: rate, server CPU, latency, memory
    Paths(paths::Args),
    /// Build what ours is set beside, and tell what is missing and how to have it
    Peers,
    /// All studies that set uthread beside others, as one page and as JSON
    Report(all::Args),
    /// One request to the kernel by each technique: time, CPU, system calls, switches
    Requests(Alone),
    /// An ordinary client's latency beside slow and hostile ones
    Slow(slow::Args),
    /// Our own side of `micro`
    #[command(hide = true)]
    Own {
        #[command(flatten)]
        mode: mode::Mode,
        #[command(subcommand)]
        measured: own::Measured,
    },
    /// A thousand to a million fibers, beside threads and other runtimes: creating, memory, yielding
    Threads(Alone),
    /// Fetch every file below a folder and compare it byte for byte
    Verify(verify::Args),
}

/// What all studies take.
#[derive(clap::Args)]
struct Common {
    /// The program `uthread` [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// Who is measured, by default both, to verify only uthread; the same twice shows what noise alone looks like
    #[arg(long, value_enum, value_delimiter = ',')]
    peers: Vec<Peer>,
    /// Workers of each server, each on a CPU of its own
    #[arg(long, default_value_t = 1, value_parser = parse_workers)]
    workers: usize,
    /// How long to wait for a quiet machine before each measurement
    #[arg(long, default_value_t = QUIET_WAIT_SECONDS_MAX,
        value_parser = clap::value_parser!(u64).range(0..=QUIET_WAIT_SECONDS_MAX))]
    quiet_wait_seconds: u64,
    /// Also write every round's figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What the studies beside other runtimes take.
#[derive(clap::Args)]
struct Rounds {
    /// Rounds; each measures every runtime once
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// How long to wait for a quiet machine before each measurement
    #[arg(long, default_value_t = QUIET_WAIT_SECONDS_MAX,
        value_parser = clap::value_parser!(u64).range(0..=QUIET_WAIT_SECONDS_MAX))]
    quiet_wait_seconds: u64,
    /// Also write every round's figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Rounds {
    fn quiet_wait(&self) -> Duration {
        Duration::from_secs(self.quiet_wait_seconds)
    }
}

fn main() -> ExitCode {
    let result = match Arguments::parse().study {
        Study::Compute(alone) => alone.run_of(compute::study).map(|()| true),
        Study::Disk(args) => disk::run(&args).map(|()| true),
        Study::Drivers(args) => drivers::run(&args).map(|()| true),
        Study::Echo(args) => echo::run(&args).map(|()| true),
        Study::Http(args) => http::run(&args).map(|()| true),
        Study::Idle(args) => idle::run(&args).map(|()| true),
        Study::Latency(args) => latency::run(&args).map(|()| true),
        Study::Calls { pid, seconds } => calls::run(pid, seconds).map(|()| true),
        Study::Load { address, load } => load::run(address, &load).map(|()| true),
        Study::LoadCheck(args) => load_check::run(&args).map(|()| true),
        Study::Micro(args) => micro::run(&args).map(|()| true),
        Study::Own { mode, measured } => own::run(mode, &measured).map(|()| true),
        Study::Page(args) => page::run(&args).map(|()| true),
        Study::Paths(args) => paths::run(&args).map(|()| true),
        Study::Peers => {
            peers::run();
            Ok(true)
        }
        Study::Report(args) => all::run(&args),
        Study::Requests(alone) => alone.run_of(requests::study).map(|()| true),
        Study::Slow(args) => slow::run(&args).map(|()| true),
        Study::Threads(alone) => alone.run_of(threads::study).map(|()| true),
        Study::Verify(args) => verify::run(&args),
    };
    exit_code(result.map(|is_good| is_good && !say::is_lost()))
}

fn exit_code(result: Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => {
            tell!("uthread-bench: {error:#}");
            ExitCode::from(if error.is::<Unavailable>() {
                UNAVAILABLE
            } else {
                FAILED
            })
        }
    }
}

/// More workers than a CPU set holds could not be pinned one by one.
fn parse_workers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(workers @ 1..=1023) => Ok(workers),
        _ => Err("from 1 to 1023".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_cannot_start_is_told_from_what_failed() {
        let check = |result, expected: u8| assert_eq!(exit_code(result), ExitCode::from(expected));
        check(Ok(true), 0);
        check(Ok(false), 1);
        check(Err(anyhow::anyhow!("x")), 1);
        check(Err(Unavailable("x".to_owned()).into()), 2);
        check(
            Err(anyhow::Error::from(Unavailable("x".to_owned())).context("y")),
            2,
        );
    }
}
