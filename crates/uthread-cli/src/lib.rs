//! The program `uthread`: a static web server, a proxy, an echo server, a load generator, a disk
//! benchmark, a search tool, a simulator of services, a porting tool and a diagnosis, on user-level
//! threads.
//!
//! This file has the dispatch; each subcommand has its own module. `main.rs` only calls it, so that tests
//! can run servers in a simulated network. The interface is not for others.

#![forbid(unsafe_code)]

mod address;
mod args;
mod connections;
mod counters;
mod exit;
mod input;
mod line_log;
mod listen;
mod networks;
mod notify;
mod output;
mod runtime;
mod rust_files;
mod server;
mod socket_file;
mod stop;
mod stream;
mod targets;

mod audit;
mod completions;
mod doctor;
#[cfg(target_arch = "x86_64")]
mod dump;
mod echo;
mod iobench;
mod load;
mod man;
mod model;
mod port;
#[cfg(target_arch = "x86_64")]
mod run;
mod search;
mod serve;
#[cfg(target_arch = "x86_64")]
mod top;
#[cfg(target_arch = "x86_64")]
mod trace;
mod tunnel;

mod http;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use args::{Command, CommandLine};
use server::Place;
use stop::Stop;

/// Does what the arguments of the process ask for.
#[doc(hidden)]
#[must_use]
pub fn main() -> ExitCode {
    let exit = match parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Echo(args) => echo::run(&args),
        Command::Tunnel(args) => tunnel::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Iobench(options) => iobench::run(&options),
        Command::Search(options) => search::run(&options),
        Command::Model(options) => model::run(&options),
        Command::Port(args) => port::run(&args),
        Command::Audit(args) => audit::run(&args),
        #[cfg(target_arch = "x86_64")]
        Command::Dump(args) => dump::run(&args),
        #[cfg(target_arch = "x86_64")]
        Command::Top(args) => top::run(&args),
        #[cfg(target_arch = "x86_64")]
        Command::Trace(args) => trace::run(&args),
        #[cfg(target_arch = "x86_64")]
        Command::Run(args) => run::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions { shell } => completions::run(shell),
        Command::Man {
            into: Some(folder), ..
        } => man::write(&folder),
        Command::Man { command, .. } => man::run(command.as_deref()),
    };
    ExitCode::from(exit as u8)
}

/// Runs `uthread serve` or `uthread tunnel` on fibers of the caller's runtime. The first of `stops` drains
/// it, and the next one cuts what is left. Returns the code with which the program would exit.
///
/// # Panics
///
/// Panics if the arguments are wrong, or of another subcommand.
#[doc(hidden)]
#[must_use]
pub fn serve_in_place<I>(arguments: I, stops: impl Iterator<Item = ()> + Send + 'static) -> u8
where
    I: IntoIterator<Item: Into<OsString> + Clone>,
{
    let place = Place {
        runtime: "in place".to_owned(),
        stop: Stop::when(stops),
    };
    let line = CommandLine::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
    let exit = match line.command {
        Command::Serve(args) => serve::serve(&args, place),
        Command::Tunnel(args) => tunnel::serve(args, place),
        _ => panic!("only serve and tunnel run in place"),
    };
    exit as u8
}

/// Parses the arguments, and in front of them those in the file of options of a search.
fn parse() -> CommandLine {
    let mut arguments = Vec::from_iter(env::args_os());
    let line = CommandLine::parse_from(&arguments);
    let configured = match &line.command {
        Command::Search(options) => search::configured(options),
        _ => return line,
    };
    if configured.is_empty() {
        return line;
    }
    // After the names of the program and of the subcommand.
    arguments.splice(2..2, configured);
    CommandLine::parse_from(arguments)
}
