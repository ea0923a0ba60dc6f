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

mod doctor;
mod echo;
mod iobench;
mod load;
mod model;
mod port;
mod search;
mod serve;

mod http;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Command, CommandLine};
use exit::Exit;
use output::{print, tell};

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
        Command::Completions { shell } => print(|out| {
            let mut command = CommandLine::command();
            clap_complete::generate(shell, &mut command, "uthread", out);
            Ok(())
        }),
        Command::Man { command } => print_manual(command.as_deref()),
    };
    ExitCode::from(exit as u8)
}

fn print_manual(name: Option<&str>) -> Exit {
    // Built, so that the subcommands know their full names ("uthread-serve").
    let mut program = CommandLine::command();
    program.build();
    let command = match name {
        None => program,
        Some(name) => match program.find_subcommand(name) {
            Some(command) => command.clone(),
            None => {
                tell(format_args!("no subcommand '{name}'; see uthread --help"));
                return Exit::CouldNotStart;
            }
        },
    };
    print(|out| clap_mangen::Man::new(command).render(out))
}
