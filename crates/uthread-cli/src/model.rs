//! `uthread model`: simulates services under load with the crate `uthread-model`.

use uthread_model::{Options, Unavailable};

use crate::exit::Exit;
use crate::output::tell;

pub(crate) fn run(options: &Options) -> Exit {
    match uthread_model::run(options) {
        Ok(()) => Exit::Done,
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
