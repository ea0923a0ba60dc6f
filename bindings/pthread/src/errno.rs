//! Results as C reports them.

use std::ffi::c_int;
use std::io;

/// Returns the error number of an error.
pub(crate) fn number(error: &io::Error) -> c_int {
    let known = error.raw_os_error();
    known.unwrap_or(match error.kind() {
        io::ErrorKind::WouldBlock => libc::EAGAIN,
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        io::ErrorKind::Interrupted => libc::EINTR,
        io::ErrorKind::InvalidInput => libc::EINVAL,
        io::ErrorKind::OutOfMemory => libc::ENOMEM,
        _ => libc::EIO,
    })
}

/// Returns 0 or an error number, as the functions of pthreads do.
pub(crate) fn code(result: io::Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => number(&error),
    }
}

/// Returns the value, or -1 with the error number in `errno`, as system calls do.
pub(crate) fn returned<T: From<i8>>(result: io::Result<T>) -> T {
    result.unwrap_or_else(|error| {
        set(number(&error));
        T::from(-1)
    })
}

/// Returns the result of a system call that reports its error in `errno`.
pub(crate) fn outcome<T: PartialOrd + Default>(result: T) -> io::Result<T> {
    if result < T::default() {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Sets `errno`. Not inlined: the address is that of the thread-local storage of the caller's fiber.
#[inline(never)]
#[allow(unsafe_code, reason = "a variable of the C library")]
fn set(number: c_int) {
    // SAFETY: the call has no preconditions.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the address is that of a variable of the calling thread.
    unsafe { place.write(number) };
}
