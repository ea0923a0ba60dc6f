//! Calls on files, pipes and whatever else has a descriptor.

use std::ffi::{c_int, c_ulong, c_void};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::slice;
use std::time::Duration;

use uthread::fs::File;
use uthread::os::unix::fs::FileExt;
use uthread::ring::Events;

use crate::deadline;
use crate::descriptor::{borrow, for_ever, retry, wait};
use crate::errno::{outcome, returned};
use crate::record;

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
/// by `file`, or by `plain` once the device is ready.
fn transfer(
    fd: RawFd,
    events: Events,
    now: impl Fn() -> isize,
    plain: impl Fn() -> isize,
    file: impl Fn() -> io::Result<usize>,
) -> isize {
    let call = || match outcome(now()) {
        Err(error) if is_unsupported(&error) && has_no_offsets(fd) => {
            wait(fd, events, for_ever())?;
            outcome(plain())
        }
        Err(error) if may_wait(&error) && !has_no_offsets(fd) => file().map(|count| count as isize),
        result => result,
    };
    returned(retry(fd, events, for_ever, call))
}

fn is_unsupported(error: &io::Error) -> bool {
    [Some(libc::EOPNOTSUPP), Some(libc::EINVAL)].contains(&error.raw_os_error())
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
            (&*borrow::<File>(fd)).read(memory)
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
            (&*borrow::<File>(fd)).write(bytes)
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
        borrow::<File>(fd).read_at(memory, offset)
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
        borrow::<File>(fd).write_at(bytes, offset)
    });
    returned(written.map(|count| count as isize))
}

/// Waits until what was written is on the disk: `fsync(2)`. A cancellation point.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn uthread_fsync(fd: c_int) -> c_int {
    returned(record::point(|| borrow::<File>(fd).sync_all()).map(|()| 0))
}

/// Waits until the data that was written is on the disk: `fdatasync(2)`. A cancellation point.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn uthread_fdatasync(fd: c_int) -> c_int {
    returned(record::point(|| borrow::<File>(fd).sync_data()).map(|()| 0))
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

/// An epoll instance, in which a thread waits for several descriptors.
struct Several(RawFd);

impl Drop for Several {
    #[allow(unsafe_code, reason = "a system call")]
    fn drop(&mut self) {
        // SAFETY: nothing else has the descriptor.
        unsafe { libc::close(self.0) };
    }
}

impl Several {
    /// Returns an instance for these descriptors. Those that cannot be waited for are ready, which
    /// `poll` has found.
    #[allow(unsafe_code, reason = "system calls that std has no function for")]
    fn new(wanted: &[libc::pollfd]) -> io::Result<Several> {
        // SAFETY: the call takes no memory.
        let several = Several(outcome(unsafe {
            libc::epoll_create1(libc::EPOLL_CLOEXEC)
        })?);
        for one in wanted.iter().filter(|one| one.fd >= 0) {
            let mut event = libc::epoll_event {
                events: u32::from(one.events.cast_unsigned()),
                u64: 0,
            };
            let event = &raw mut event;
            // A number that is there twice is refused the second time: then any event will do.
            // SAFETY: the event lives until the call has returned.
            let added = unsafe { libc::epoll_ctl(several.0, libc::EPOLL_CTL_ADD, one.fd, event) };
            match outcome(added).map_err(|error| error.raw_os_error()) {
                Err(Some(libc::EEXIST)) => several.await_anything(one.fd)?,
                Err(Some(errno)) => return Err(io::Error::from_raw_os_error(errno)),
                _ => {}
            }
        }
        Ok(several)
    }

    #[allow(unsafe_code, reason = "a system call that std has no function for")]
    fn await_anything(&self, fd: RawFd) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI) as u32,
            u64: 0,
        };
        // SAFETY: the event lives until the call has returned.
        outcome(unsafe { libc::epoll_ctl(self.0, libc::EPOLL_CTL_MOD, fd, &raw mut event) })?;
        Ok(())
    }
}

/// Waits for events of descriptors: `poll(2)`. A cancellation point.
///
/// # Safety
///
/// `descriptors` points to `count` of them.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_poll(
    descriptors: *mut libc::pollfd,
    count: c_ulong,
    milliseconds: c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let now = || outcome(unsafe { libc::poll(descriptors, count, 0) });
    let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    returned(record::point(|| {
        let ready = now()?;
        if ready > 0 || limit.is_some_and(|limit| limit.is_zero()) {
            uthread::yield_now();
            return Ok(ready);
        }
        let deadline = limit.and_then(deadline::after);
        let wanted = match count {
            0 => &[][..],
            // SAFETY: the caller's contract.
            _ => unsafe { slice::from_raw_parts(descriptors, count as usize) },
        };
        let several = Several::new(wanted)?;
        loop {
            let is_over = !wait(several.0, Events::READABLE, deadline)?;
            let ready = now()?;
            if ready > 0 || is_over {
                return Ok(ready);
            }
        }
    }))
}
