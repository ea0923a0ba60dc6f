//! The program `uthread`: a static web server, an echo server, a load generator, a disk benchmark, a search tool, a simulator
//! of services, a porting tool and a diagnosis, on user-level threads.
//!
//! This file has the dispatch and the table of exit codes; each subcommand has its own module.

#![forbid(unsafe_code)]

mod args;
mod listen;
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

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Command, CommandLine};

/// Exit codes of the program. `args.rs` documents the same table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    FailedRunning = 1,
    /// Also clap's code for wrong usage.
    CouldNotStart = 2,
    ResponsesCut = 3,
}

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

/// Prints a message for the operator on stderr, in one line. Ignores errors, unlike `eprintln!`: a closed stderr must
/// not end a server.
pub(crate) fn tell(message: impl Display) {
    let _ = writeln!(io::stderr(), "uthread: {message}");
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

/// Prints to stdout. Renders into memory first, so that only one place handles errors of stdout.
pub(crate) fn print(render: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Exit {
    let mut text = Vec::new();
    match render(&mut text).and_then(|()| io::stdout().write_all(&text)) {
        Ok(()) => Exit::Done,
        Err(error) => {
            tell(format_args!("cannot write to stdout: {error}"));
            Exit::FailedRunning
        }
    }
}
