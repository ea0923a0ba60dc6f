//! What to do where the kernel has no more threads, descriptors or memory for a runtime.

use std::{error, fmt, io};

use rustix::io::Errno;

/// Adds it to the kernel's error; what a driver has said to its own stays as it is.
pub(super) fn explain(error: io::Error) -> io::Error {
    let remedy = match Errno::from_io_error(&error) {
        Some(Errno::AGAIN) => {
            "no more threads may be started: raise `ulimit -u` or the control group's pids.max, or run \
             with fewer workers"
        }
        Some(Errno::MFILE | Errno::NFILE) => {
            "too many files are open for another worker: raise the limit by `ulimit -n`"
        }
        Some(Errno::NOMEM) => "there is too little memory for another worker: run with fewer",
        _ => return error,
    };
    io::Error::new(error.kind(), Shortage { error, remedy })
}

/// The kernel's error, kept as the source, with the remedy.
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
