//! Linux AIO, by its system calls, as no library has them.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::eventfd::print_cost;
use crate::value::check;

/// `IOCB_CMD_PREAD` of `linux/aio_abi.h`.
const READ: u16 = 0;

/// `struct io_event` there.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

pub(crate) fn read(fd: BorrowedFd<'_>, requests: u32) -> io::Result<()> {
    let mut context: libc::c_ulong = 0;
    // SAFETY: the call writes the id of the context, which ends with the process.
    succeed(unsafe { libc::syscall(libc::SYS_io_setup, 1_u32, &raw mut context) })?;
    print_cost(requests, || {
        (0..requests).try_for_each(|_| read_one(context, fd))
    })
}

fn read_one(context: libc::c_ulong, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut value = [0; 8];
    // SAFETY: a plain structure, for which zeroes mean nothing.
    let mut request: libc::iocb = unsafe { mem::zeroed() };
    request.aio_lio_opcode = READ;
    request.aio_fildes = fd.as_raw_fd() as u32;
    request.aio_buf = value.as_mut_ptr() as u64;
    request.aio_nbytes = value.len() as u64;
    let list = [&raw mut request];
    // SAFETY: request and value stay in place until the event below says that it has ended.
    succeed(unsafe { libc::syscall(libc::SYS_io_submit, context, 1_isize, list.as_ptr()) })?;
    let mut event = Event::default();
    let no_limit = ptr::null::<libc::timespec>();
    // SAFETY: the call writes one event.
    let count = unsafe {
        libc::syscall(
            libc::SYS_io_getevents,
            context,
            1_isize,
            1_isize,
            &raw mut event,
            no_limit,
        )
    };
    succeed(count)?;
    assert_eq!((count, event.result), (1, value.len() as i64));
    check(value)
}

fn succeed(result: libc::c_long) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
