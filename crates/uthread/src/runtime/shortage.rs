//! Remedies for a lack of threads, descriptors or memory while a runtime starts.

use std::{error, fmt, io};

use rustix::io::Errno;

/// Adds a remedy to an error of the kernel. Errors that a driver has explained remain unchanged.
pub(super) fn explain(error: io::Error) -> io::Error {
    let remedy = match Errno::from_io_error(&error) {
        Some(Errno::AGAIN) => {
            "no more threads may be started: raise `ulimit -u` or the control group's pids.max, or run \
             with fewer workers"
        }
        Some(Errno::MFILE | Errno::NFILE) => {
            "no descriptor is free for another worker: raise the limit by `ulimit -n`"
        }
        Some(Errno::NOMEM) => {
            "there is not enough memory for another worker: run with fewer workers"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), Shortage { error, remedy })
}

/// An error of the kernel, kept as the source, with a remedy.
#[derive(Debug)]
struct Shortage {
    error: io::Error,
    remedy: &'static str,
}

impl fmt::Display for Shortage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.error, self.remedy)
    }
}

impl error::Error for Shortage {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.error)
    }
}
