//! The program `uthread`: a static web server, a proxy, an echo server, a load generator, a disk
//! benchmark, a search tool, a simulator of services, a porting tool and a diagnosis, on user-level
//! threads.
//!
//! This file has the dispatch; each subcommand has its own module.

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
use std::process::ExitCode;

use clap::Parser;

use args::{Command, CommandLine};

fn main() -> ExitCode {
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
