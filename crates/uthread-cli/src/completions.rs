//! `uthread completions`: prints completions for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::CommandLine;
use crate::exit::Exit;
use crate::output::print;

pub(crate) fn run(shell: Shell) -> Exit {
    print(|out| {
        let mut command = CommandLine::command();
        clap_complete::generate(shell, &mut command, "uthread", out);
        Ok(())
    })
}
