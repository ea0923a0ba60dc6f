//! Safe functions for raw requests: each test keeps the memory that its entries refer to until the
//! call has returned.

use std::io;

use rustix::io::Errno;
use uthread::ring::io_uring::squeue::Entry;
use uthread::ring::{self, Completion};

#[allow(unsafe_code, reason = "the tests keep what entries point to")]
pub(crate) fn submit(entry: Entry) -> io::Result<Completion> {
    // SAFETY: as said above.
    unsafe { ring::submit(entry) }
}

#[allow(unsafe_code, reason = "the tests keep what entries point to")]
pub(crate) fn submit_all(
    entries: impl IntoIterator<Item = Entry>,
) -> io::Result<Vec<io::Result<Completion>>> {
    // SAFETY: as said above.
    unsafe { ring::submit_all(entries) }
}

pub(crate) fn result_of(entry: Entry) -> u32 {
    let text = format!("{entry:?}");
    submit(entry)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .result
}

/// Submits the entries and returns each result, or the errno of its error.
pub(crate) fn outcomes(entries: impl IntoIterator<Item = Entry>) -> Vec<Result<u32, Errno>> {
    let errno = |error: io::Error| Errno::from_io_error(&error).unwrap();
    let results = submit_all(entries).unwrap();
    let outcome = |result: io::Result<Completion>| result.map(|done| done.result).map_err(errno);
    results.into_iter().map(outcome).collect()
}
