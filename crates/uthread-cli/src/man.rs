//! `uthread man`: prints a manual page, or writes all of them.

use std::path::Path;

use clap::CommandFactory;

use crate::args::CommandLine;
use crate::exit::Exit;
use crate::output::{print, tell};

pub(crate) fn run(name: Option<&str>) -> Exit {
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

/// Writes a page for the program and for each subcommand.
pub(crate) fn write(folder: &Path) -> Exit {
    match clap_mangen::generate_to(CommandLine::command(), folder) {
        Ok(()) => Exit::Done,
        Err(error) => {
            tell(format_args!("{}: {error}", folder.display()));
            Exit::FailedRunning
        }
    }
}
