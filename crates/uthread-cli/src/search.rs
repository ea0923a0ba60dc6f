//! `uthread search`: finds text in files with the crate `uthread-search`.

use uthread_search::{Options, Outcome};

use crate::exit::Exit;
use crate::output::tell;

pub(crate) fn run(options: &Options) -> Exit {
    match uthread_search::run(options) {
        Ok(Outcome::Found) => Exit::Done,
        // The codes of grep and ripgrep.
        Ok(Outcome::NothingFound) => Exit::FailedRunning,
        Ok(Outcome::Failed) => Exit::CouldNotStart,
        Err(error) => {
            tell(format_args!("{error:#}"));
            Exit::CouldNotStart
        }
    }
}
