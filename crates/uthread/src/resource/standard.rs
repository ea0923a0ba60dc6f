//! The numbers 0, 1 and 2, which belong to the standard streams.
//!
//! The kernel gives the lowest free number to a new descriptor. In a daemon, or under a program in
//! another language, it may be one of these: whatever is printed would then go to it. So what the
//! library opens for itself, and not for its caller, never keeps such a number.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// The number of the last standard stream.
const LAST: RawFd = 2;

/// Returns the descriptor itself, or a duplicate in its place if it has the number of a standard
/// stream.
///
/// # Errors
///
/// `EMFILE` if the process has no free descriptor.
pub(crate) fn avoid<F: AsFd + From<OwnedFd>>(file: F) -> io::Result<F> {
    if has_standard_number(&file.as_fd()) {
        return Ok(duplicate(file)?.into());
    }
    Ok(file)
}

/// Returns a duplicate of a descriptor without the number of a standard stream. It is closed on
/// exec.
///
/// # Errors
///
/// `EMFILE` if the process has no free descriptor.
pub(crate) fn duplicate(file: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(file, LAST + 1)?)
}

/// Returns `true` if a descriptor has the number of a standard stream.
pub(crate) fn has_standard_number(file: &impl AsRawFd) -> bool {
    file.as_raw_fd() <= LAST
}
