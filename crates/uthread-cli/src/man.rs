//! `uthread man`: prints a manual page.

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
