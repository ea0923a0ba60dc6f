//! The program `uthread`: a static web server, an echo server, a load generator, a disk benchmark, a search tool, a simulator
//! of services, a porting tool and a diagnosis, on user-level threads.
//!
//! This file has the dispatch; each subcommand has its own module.

#![forbid(unsafe_code)]

mod args;
mod exit;
mod listen;
mod output;
mod runtime;

mod completions;
mod doctor;
mod echo;
mod iobench;
mod load;
mod man;
mod model;
mod port;
mod search;
mod serve;

mod http;

use std::process::ExitCode;

use clap::Parser;

use args::{Command, CommandLine};

fn main() -> ExitCode {
    let exit = match CommandLine::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Echo(args) => echo::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Iobench(options) => iobench::run(&options),
        Command::Search(options) => search::run(&options),
        Command::Model(options) => model::run(&options),
        Command::Port(args) => port::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions { shell } => completions::run(shell),
        Command::Man { command } => man::run(command.as_deref()),
    };
    ExitCode::from(exit as u8)
}
