//! The error of calls that need a ring where there is none.

use std::io;

use crate::sched::features::ring::{self, NoRing};

/// Returns an error unless the caller is a fiber on the io_uring driver.
///
/// # Errors
///
/// `Unsupported` if the caller has no ring. The message contains a remedy.
pub(super) fn require_ring() -> io::Result<()> {
    ring::require().map_err(|no_ring| io::Error::new(io::ErrorKind::Unsupported, explain(no_ring)))
}

fn explain(no_ring: NoRing) -> &'static str {
    match no_ring {
        NoRing::OtherDriver => {
            "the runtime's driver has no ring: choose Driver::Uring or, where io_uring is refused, see \
             Runtime::driver() for what to do"
        }
        NoRing::Threads => "the threads driver has no ring: choose Driver::Uring",
        NoRing::Dedicated => {
            "a dedicated fiber has no ring: make the call in a fiber on a worker, with Driver::Uring"
        }
        NoRing::Outside => {
            "a thread outside the runtime has no ring: make the call in a fiber, on Driver::Uring"
        }
    }
}
