//! `uthread-bench`: compares uthread with other runtimes, servers and the bare kernel, and its
//! drivers with each other.
//!
//! Exit codes: 0 measured, 1 failed, 2 cannot start here or wrong arguments.

mod alone;
mod cpu_split;
mod files;
mod h2load;
mod limits;
mod load;
mod measure;
mod merge;
mod page;
mod peers;
mod report;
mod servers;
mod setup;
mod studies;
mod summary;
mod targets;
mod transfers;

#[cfg(test)]
mod sample;

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use uthread_report::study::Journal;
use uthread_report::{Unavailable, tell};

use crate::alone::Alone;
use load::Load;
use studies::{
    bulk, counter, disk, echo, haskell, http, memory, programs, search, service, tunnel,
};

const FAILED: u8 = 1;
const UNAVAILABLE: u8 = 2;

/// Compare uthread with other runtimes, servers and the bare kernel, and its drivers with each
/// other
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    study: Study,
}

#[derive(Subcommand)]
enum Study {
    /// Measure how long a light connection waits beside bulk transfers, on each driver
    Bulk(bulk::Args),
    /// Measure one counter that threads or fibers increment together, by each way of sharing it
    Counter(Alone),
    /// Measure reads of 4 KiB past the page cache, beside fio
    Disk(disk::Args),
    /// Measure messages of 16 bytes with work before each answer, beside other runtimes
    Compute(Alone),
    /// Measure messages of 16 bytes over 1 to 15,000 connections, beside other runtimes
    Echo(echo::Args),
    /// Measure a web server in Haskell on our ring manager, beside GHC's event manager and warp
    Haskell(Alone),
    /// Measure static files and a fixed response, beside other servers
    Http(http::Args),
    /// Measure messages at a fixed rate to servers that are not saturated, beside other runtimes
    Latency(Alone),
    /// Load a server
    #[command(hide = true)]
    Load {
        address: SocketAddr,
        /// The load as JSON
        load: Load,
    },
    /// Measure the memory of fibers before, at and after a peak, beside threads and other runtimes
    Memory(Alone),
    /// Measure spawning, yielding, memory, messages and forks without I/O, beside other runtimes
    Micro(Alone),
    /// Draw the page of a report again, from its JSON
    Page(report::PageArgs),
    /// Build the programs that ours is compared with, and list what is missing
    Peers,
    /// Run all studies that compare uthread with others, and write one page and its JSON
    Report(report::Args),
    /// Measure web services by frameworks of several runtimes
    Service(Alone),
    /// Measure searching text in files, beside ripgrep
    Search(search::Args),
    /// Measure creating and yielding of a thousand to a million fibers, beside threads and other
    /// runtimes
    Threads(Alone),
    /// Measure forwarding of messages and transfers, beside HAProxy
    Tunnel(http::Args),
}

fn main() -> ExitCode {
    let result = run(Arguments::parse().study);
    exit_code(result)
}

/// Returns false if a report was interrupted.
fn run(study: Study) -> Result<bool> {
    match study {
        Study::Bulk(args) => {
            let (measuring, server) = (&args.alone.measuring, args.server.as_deref());
            let study = bulk::study(measuring, server, &args.connections)?;
            args.alone.run(study)
        }
        Study::Compute(alone) => alone.run(echo::compute(&alone.measuring)?),
        Study::Counter(alone) => alone.run(counter::study(&alone.measuring)?),
        Study::Disk(args) => args
            .alone
            .run(disk::study(&args.alone.measuring, &args.disk)?),
        Study::Echo(args) => {
            let study = echo::echo(&args.alone.measuring, &args.connections)?;
            args.alone.run(study)
        }
        Study::Haskell(alone) => alone.run(haskell::study(&alone.measuring)?),
        Study::Service(alone) => alone.run(service::study(&alone.measuring)?),
        Study::Http(args) => {
            let study = http::study(&args.alone.measuring, args.server.as_deref())?;
            args.alone.run(study)
        }
        Study::Latency(alone) => {
            let study = echo::latency(&alone.measuring, &mut Journal::default())?;
            alone.run(study)
        }
        Study::Memory(alone) => alone.run(memory::study(&alone.measuring)?),
        Study::Micro(alone) => alone.run(programs::micro(&alone.measuring)?),
        Study::Search(args) => args
            .alone
            .run(search::study(&args.alone.measuring, &args.search)?),
        Study::Threads(alone) => alone.run(programs::threads(&alone.measuring)?),
        Study::Tunnel(args) => {
            let study = tunnel::study(&args.alone.measuring, args.server.as_deref())?;
            args.alone.run(study)
        }
        Study::Load { address, load } => load::run(address, &load),
        Study::Page(args) => report::draw_again(&args),
        Study::Peers => {
            peers::run();
            Ok(())
        }
        Study::Report(args) => return report::run(&args),
    }
    .map(|()| true)
}

fn exit_code(result: Result<bool>) -> ExitCode {
    let error = match result {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => return ExitCode::from(FAILED),
        Err(error) => error,
    };
    tell!("uthread-bench: {error:#}");
    let is_unavailable = error.is::<Unavailable>();
    ExitCode::from(if is_unavailable { UNAVAILABLE } else { FAILED })
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
    fn an_unavailable_study_has_its_own_exit_code() {
        let check = |result, expected: u8| assert_eq!(exit_code(result), ExitCode::from(expected));
        check(Ok(true), 0);
        check(Ok(false), 1);
        check(Err(anyhow::anyhow!("x")), 1);
        let unavailable = anyhow::Error::from(Unavailable("x".to_owned()));
        check(Err(unavailable.context("y")), 2);
    }
}
