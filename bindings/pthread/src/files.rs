//! Calls on files, pipes and whatever else has a descriptor.

use std::ffi::{c_char, c_int, c_void};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::slice;

use uthread::os::unix::fs::FileExt;
use uthread::ring::Events;

use crate::blocking::blocking;
use crate::descriptor::{Lent, for_ever, is_nonblocking, is_ready, retry, wait};
use crate::errno::{outcome, returned};
use crate::{record, signals};

/// Returns `true` for what can be waited for, and has no offsets: a pipe, a socket, a device such as
/// a terminal, or what is no file, such as an eventfd.
#[allow(unsafe_code, reason = "a system call that takes a descriptor")]
fn has_no_offsets(fd: RawFd) -> bool {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the status has room for the result.
    unsafe { libc::fstat(fd, status.as_mut_ptr()) };
    // SAFETY: the structure was zeroed, and each bit pattern is valid.
    let mode = unsafe { status.assume_init() }.st_mode & libc::S_IFMT;
    [libc::S_IFIFO, libc::S_IFSOCK, libc::S_IFCHR, 0].contains(&mode)
}

/// Reads or writes by `now`, which does not wait; or, where the file or the device has no such call,
/// by `file`, or by `plain` once the device is ready. A call that need not wait does not fail at the
/// deadline of its fiber: event loops wake themselves by an eventfd, and panic if that fails.
fn transfer(
    fd: RawFd,
    events: Events,
    now: impl Fn() -> isize,
    plain: impl Fn() -> isize,
    file: impl Fn() -> io::Result<usize>,
) -> isize {
    let call = || match outcome(now()) {
        Err(error) if is_unsupported(&error) && has_no_offsets(fd) => {
            if !is_nonblocking(fd) && !is_ready(fd, events)? {
                wait(fd, events, for_ever())?;
            }
            outcome(plain())
        }
        Err(error) if may_wait(&error) && signals::is_handler() => outcome(plain()),
        Err(error) if may_wait(&error) && !has_no_offsets(fd) => file().map(|count| count as isize),
        result => result,
    };
    returned(retry(fd, events, for_ever, call))
}

fn is_unsupported(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EOPNOTSUPP)
}

fn may_wait(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || is_unsupported(error)
}

/// Returns the memory that a call reads into.
///
/// # Safety
///
/// The memory is there, and nothing else accesses it meanwhile.
#[allow(unsafe_code, reason = "memory of the program")]
unsafe fn memory<'a>(buffer: *mut c_void, length: usize) -> &'a mut [u8] {
    if length == 0 {
        return &mut [];
    }
    // SAFETY: the caller's contract.
    unsafe { slice::from_raw_parts_mut(buffer.cast(), length) }
}

/// Returns the memory that a call writes.
///
/// # Safety
///
/// The memory is there, and nothing changes it meanwhile.
#[allow(unsafe_code, reason = "memory of the program")]
unsafe fn bytes<'a>(buffer: *const c_void, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's contract.
    unsafe { slice::from_raw_parts(buffer.cast(), length) }
}

/// Reads: `read(2)`. A cancellation point.
///
/// # Safety
///
/// `buffer` has room for `length` bytes.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_read(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
) -> isize {
    let vector = libc::iovec {
        iov_base: buffer,
        iov_len: length,
    };
    transfer(
        fd,
        Events::READABLE,
        // SAFETY: the caller's contract.
        || unsafe { libc::preadv2(fd, &raw const vector, 1, -1, libc::RWF_NOWAIT) },
        // SAFETY: the caller's contract.
        || unsafe { libc::read(fd, buffer, length) },
        || {
            // SAFETY: the caller's contract.
            let memory = unsafe { memory(buffer, length) };
            (&*Lent::new(fd)).read(memory)
        },
    )
}

/// Writes: `write(2)`. A cancellation point. May write less than all to a pipe or a socket.
///
/// # Safety
///
/// `buffer` has `length` bytes.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_write(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
) -> isize {
    let vector = libc::iovec {
        iov_base: buffer.cast_mut(),
        iov_len: length,
    };
    transfer(
        fd,
        Events::WRITABLE,
        // SAFETY: the caller's contract.
        || unsafe { libc::pwritev2(fd, &raw const vector, 1, -1, libc::RWF_NOWAIT) },
        // SAFETY: the caller's contract.
        || unsafe { libc::write(fd, buffer, length) },
        || {
            // SAFETY: the caller's contract.
            let bytes = unsafe { bytes(buffer, length) };
            (&*Lent::new(fd)).write(bytes)
        },
    )
}

/// Reads at an offset: `pread(2)`. A cancellation point.
///
/// # Safety
///
/// `buffer` has room for `length` bytes.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_pread(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    offset: libc::off_t,
) -> isize {
    // SAFETY: the caller's contract.
    let memory = unsafe { memory(buffer, length) };
    let read = record::point(|| {
        let offset = u64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        Lent::new(fd).read_at(memory, offset)
    });
    returned(read.map(|count| count as isize))
}

/// Writes at an offset: `pwrite(2)`. A cancellation point.
///
/// # Safety
///
/// `buffer` has `length` bytes.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_pwrite(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
    offset: libc::off_t,
) -> isize {
    // SAFETY: the caller's contract.
    let bytes = unsafe { bytes(buffer, length) };
    let written = record::point(|| {
        let offset = u64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        Lent::new(fd).write_at(bytes, offset)
    });
    returned(written.map(|count| count as isize))
}

/// Waits until what was written is on the disk: `fsync(2)`. A cancellation point.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn uthread_fsync(fd: c_int) -> c_int {
    returned(record::point(|| Lent::new(fd).sync_all()).map(|()| 0))
}

/// Waits until the data that was written is on the disk: `fdatasync(2)`. A cancellation point.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn uthread_fdatasync(fd: c_int) -> c_int {
    returned(record::point(|| Lent::new(fd).sync_data()).map(|()| 0))
}

/// Closes a descriptor: `close(2)`.
///
/// # Safety
///
/// The descriptor is the program's own.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_close(fd: c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { libc::close(fd) }
}

/// Reads into several buffers: `readv(2)`. A cancellation point.
///
/// # Safety
///
/// The contract of `readv(2)`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_readv(
    fd: c_int,
    vectors: *const libc::iovec,
    count: c_int,
) -> isize {
    let plain = || {
        // SAFETY: the caller's contract.
        unsafe { libc::readv(fd, vectors, count) }
    };
    transfer(
        fd,
        Events::READABLE,
        // SAFETY: the caller's contract.
        || unsafe { libc::preadv2(fd, vectors, count, -1, libc::RWF_NOWAIT) },
        plain,
        || blocking("readv", plain).map(|count| count as usize),
    )
}

/// Writes several buffers: `writev(2)`. A cancellation point. May write less than all to a pipe or a
/// socket.
///
/// # Safety
///
/// The contract of `writev(2)`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_writev(
    fd: c_int,
    vectors: *const libc::iovec,
    count: c_int,
) -> isize {
    let plain = || {
        // SAFETY: the caller's contract.
        unsafe { libc::writev(fd, vectors, count) }
    };
    transfer(
        fd,
        Events::WRITABLE,
        // SAFETY: the caller's contract.
        || unsafe { libc::pwritev2(fd, vectors, count, -1, libc::RWF_NOWAIT) },
        plain,
        || blocking("writev", plain).map(|count| count as usize),
    )
}

/// Opens a file: `openat(2)`, with a mode that is used only if the file is created. A cancellation
/// point.
///
/// # Safety
///
/// `path` is a string of C.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_openat(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
) -> c_int {
    let open = || {
        // SAFETY: the caller's contract.
        unsafe { libc::openat(directory, path, flags, mode) }
    };
    returned(record::point(|| blocking("open", open)))
}

/// Opens a file: `open(2)`, with a mode that is used only if the file is created. A cancellation point.
///
/// # Safety
///
/// `path` is a string of C.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_open(
    path: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { uthread_openat(libc::AT_FDCWD, path, flags, mode) }
}
