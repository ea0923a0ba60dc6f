//! `uthread iobench`: measures disk I/O with the crate `uthread-iobench`.

use uthread_iobench::{Options, Outcome, Unavailable};

use crate::exit::Exit;
use crate::output::tell;

pub(crate) fn run(options: &Options) -> Exit {
    match uthread_iobench::run(options) {
        Ok(Outcome::Measured) => Exit::Done,
        Ok(Outcome::Interrupted) => Exit::FailedRunning,
        Err(error) => {
            tell(format_args!("{error:#}"));
            if error.is::<Unavailable>() {
                Exit::CouldNotStart
            } else {
                Exit::FailedRunning
            }
        }
    }
}
