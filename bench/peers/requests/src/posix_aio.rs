//! POSIX AIO, which glibc does by threads of its own: one for requests on the same descriptor.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::value::check;

pub(crate) fn read(fd: BorrowedFd<'_>, requests: u32) -> io::Result<()> {
    for _ in 0..requests {
        let mut value = [0; 8];
        // SAFETY: a plain structure of the C library, for which zeroes mean nothing.
        let mut request: libc::aiocb = unsafe { mem::zeroed() };
        request.aio_fildes = fd.as_raw_fd();
        request.aio_buf = value.as_mut_ptr().cast();
        request.aio_nbytes = value.len();
        request.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        // SAFETY: request and value stay in place until the request has ended, below.
        succeed(unsafe { libc::aio_read(&raw mut request) })?;
        let count = finish(&mut request)?;
        assert_eq!(count, value.len() as isize);
        check(value)?;
    }
    Ok(())
}

/// Waits until the request has ended; its result.
fn finish(request: &mut libc::aiocb) -> io::Result<isize> {
    let requests = [&raw const *request];
    loop {
        // SAFETY: one request, which lives; no limit of time.
        let waited = unsafe { libc::aio_suspend(requests.as_ptr(), 1, ptr::null()) };
        match succeed(waited) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        // SAFETY: the request was submitted.
        match unsafe { libc::aio_error(requests[0]) } {
            0 => break,
            libc::EINPROGRESS => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
    }
    // SAFETY: the request has ended, and its result is taken once.
    Ok(unsafe { libc::aio_return(request) })
}

fn succeed(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
