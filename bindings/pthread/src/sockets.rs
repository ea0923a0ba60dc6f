//! Calls on sockets.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use uthread::ring::Events;

use crate::descriptor::{self, for_ever, is_nonblocking, retry, set_nonblocking};
use crate::errno::{outcome, returned};
use crate::{deadline, record, sleep};

/// Returns the end of a wait by an option of the socket, `SO_RCVTIMEO` or `SO_SNDTIMEO`.
#[allow(unsafe_code, reason = "a system call that std has no function for")]
fn timeout(fd: RawFd, option: c_int) -> Option<Instant> {
    let mut time = MaybeUninit::<libc::timeval>::zeroed();
    let mut length = size_of::<libc::timeval>() as libc::socklen_t;
    let place = time.as_mut_ptr().cast();
    // SAFETY: the time has room for `length` bytes.
    unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, place, &raw mut length) };
    // SAFETY: the structure was zeroed, and each bit pattern is valid.
    let time = unsafe { time.assume_init() };
    let seconds = Duration::from_secs(time.tv_sec.try_into().ok()?);
    let limit = seconds + Duration::from_micros(time.tv_usec.try_into().ok()?);
    if limit.is_zero() {
        return None;
    }
    Instant::now().checked_add(limit)
}

/// Repeats `call`, which continues at an offset, while it has transferred bytes and `wants_more` after
/// so many; once if the flags say that it may not wait.
fn transfer(
    fd: RawFd,
    (events, limit): (Events, c_int),
    flags: c_int,
    call: impl Fn(usize, c_int) -> isize,
    wants_more: impl Fn(usize) -> bool,
) -> isize {
    let now = |offset| outcome(call(offset, flags | libc::MSG_DONTWAIT));
    if flags & libc::MSG_DONTWAIT != 0 {
        return returned(now(0));
    }
    let mut transferred = 0;
    loop {
        match retry(fd, events, || timeout(fd, limit), || now(transferred)) {
            Ok(0) => return transferred as isize,
            Ok(count) => transferred += count as usize,
            Err(error) if transferred == 0 => return returned(Err(error)),
            // What was transferred counts, as in the kernel.
            Err(_) => return transferred as isize,
        }
        if !wants_more(transferred) {
            return transferred as isize;
        }
    }
}

/// Receives by `call`: all of `length` bytes of a stream if the flags say so, as the kernel does it only
/// in a call that may wait.
fn receive(fd: RawFd, length: usize, flags: c_int, call: impl Fn(usize, c_int) -> isize) -> isize {
    let wants_all = flags & (libc::MSG_WAITALL | libc::MSG_PEEK) == libc::MSG_WAITALL;
    let wants_more = |received| wants_all && received < length && is_stream(fd);
    transfer(
        fd,
        (Events::READABLE, libc::SO_RCVTIMEO),
        flags,
        call,
        wants_more,
    )
}

/// Sends all of `length` bytes by `call`.
fn send(fd: RawFd, length: usize, flags: c_int, call: impl Fn(usize, c_int) -> isize) -> isize {
    let wants_more = |sent| sent < length && !is_nonblocking(fd);
    transfer(
        fd,
        (Events::WRITABLE, libc::SO_SNDTIMEO),
        flags,
        call,
        wants_more,
    )
}

fn is_stream(fd: RawFd) -> bool {
    option(fd, libc::SO_TYPE).is_ok_and(|kind| kind == libc::SOCK_STREAM)
}

/// Returns an option of a socket that is a number.
///
/// # Errors
///
/// Any error that `getsockopt(2)` reports.
#[allow(unsafe_code, reason = "a system call that std has no function for")]
fn option(fd: RawFd, option: c_int) -> io::Result<c_int> {
    let (mut value, mut length) = (0 as c_int, size_of::<c_int>() as libc::socklen_t);
    let place = (&raw mut value).cast();
    // SAFETY: the number has room for `length` bytes.
    outcome(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, place, &raw mut length) })?;
    Ok(value)
}

/// Receives from a socket: `recv(2)`. A cancellation point.
///
/// # Safety
///
/// `buffer` has room for `length` bytes.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_recv(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
) -> isize {
    receive(fd, length, flags, |received, flags| {
        let rest = buffer.wrapping_byte_add(received);
        // SAFETY: the caller's contract.
        unsafe { libc::recv(fd, rest, length - received, flags) }
    })
}

/// Receives from a socket with the sender's address: `recvfrom(2)`. A cancellation point.
///
/// # Safety
///
/// The contract of `recvfrom(2)`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
    address: *mut libc::sockaddr,
    address_length: *mut libc::socklen_t,
) -> isize {
    receive(fd, length, flags, |received, flags| {
        let rest = buffer.wrapping_byte_add(received);
        // SAFETY: the caller's contract.
        unsafe { libc::recvfrom(fd, rest, length - received, flags, address, address_length) }
    })
}

/// Receives a message: `recvmsg(2)`. A cancellation point. `MSG_WAITALL` has no effect.
///
/// # Safety
///
/// The contract of `recvmsg(2)`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_recvmsg(
    fd: c_int,
    message: *mut libc::msghdr,
    flags: c_int,
) -> isize {
    // SAFETY: the caller's contract.
    receive(fd, 0, flags, |_, flags| unsafe {
        libc::recvmsg(fd, message, flags)
    })
}

/// Sends to a socket: `send(2)`. A cancellation point.
///
/// # Safety
///
/// `buffer` has `length` bytes.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_send(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
    flags: c_int,
) -> isize {
    send(fd, length, flags, |sent, flags| {
        let rest = buffer.wrapping_byte_add(sent);
        // SAFETY: the caller's contract.
        unsafe { libc::send(fd, rest, length - sent, flags) }
    })
}

/// Sends to an address: `sendto(2)`. A cancellation point.
///
/// # Safety
///
/// The contract of `sendto(2)`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_sendto(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
    flags: c_int,
    address: *const libc::sockaddr,
    address_length: libc::socklen_t,
) -> isize {
    send(fd, length, flags, |sent, flags| {
        let rest = buffer.wrapping_byte_add(sent);
        // SAFETY: the caller's contract.
        unsafe { libc::sendto(fd, rest, length - sent, flags, address, address_length) }
    })
}

/// Sends a message: `sendmsg(2)`. A cancellation point. May send less than all of it to a stream.
///
/// # Safety
///
/// The contract of `sendmsg(2)`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_sendmsg(
    fd: c_int,
    message: *const libc::msghdr,
    flags: c_int,
) -> isize {
    // SAFETY: the caller's contract.
    send(fd, 0, flags, |_, flags| unsafe {
        libc::sendmsg(fd, message, flags)
    })
}

/// Accepts a connection: `accept(2)`. A cancellation point.
///
/// # Safety
///
/// The contract of `accept(2)`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_accept(
    fd: c_int,
    address: *mut libc::sockaddr,
    address_length: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { uthread_accept4(fd, address, address_length, 0) }
}

/// Accepts a connection with flags: `accept4(2)`. A cancellation point.
///
/// # Safety
///
/// The contract of `accept4(2)`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_accept4(
    fd: c_int,
    address: *mut libc::sockaddr,
    address_length: *mut libc::socklen_t,
    flags: c_int,
) -> c_int {
    let accepted = retry(
        fd,
        Events::READABLE,
        || timeout(fd, libc::SO_RCVTIMEO),
        || {
            let turn = &ACCEPTING[fd as usize % ACCEPTING.len()];
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            if would_wait(fd) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            // SAFETY: the caller's contract.
            outcome(unsafe { libc::accept4(fd, address, address_length, flags) })
        },
    );
    returned(accepted)
}

/// Held from the check that a listener, by its number, has a connection until it is accepted, as no
/// flag keeps `accept4(2)` from waiting. As many as hold up few threads that accept from different
/// listeners.
static ACCEPTING: [Mutex<()>; 16] = [const { Mutex::new(()) }; 16];

/// Returns `true` if accepting would wait for a connection. What is no listener is an error at once.
#[allow(unsafe_code, reason = "a system call")]
fn would_wait(fd: RawFd) -> bool {
    let mut listener = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the structure lives until the call has returned.
    let ready = unsafe { libc::poll(&raw mut listener, 1, 0) };
    ready == 0 && option(fd, libc::SO_ACCEPTCONN).is_ok_and(|accepts| accepts != 0)
}

/// Connects a socket: `connect(2)`. A cancellation point. The socket is non-blocking meanwhile.
///
/// # Safety
///
/// The contract of `connect(2)`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_connect(
    fd: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> c_int {
    // SAFETY: the caller's contract.
    let connect = || outcome(unsafe { libc::connect(fd, address, length) });
    returned(record::point(|| {
        if is_nonblocking(fd) {
            connect()
        } else {
            connect_meanwhile(fd, connect)
        }
    }))
}

/// A socket that is non-blocking until this is dropped.
struct Nonblocking(RawFd);

impl Drop for Nonblocking {
    fn drop(&mut self) {
        // A socket that was made non-blocking can be made blocking.
        let _ = set_nonblocking(self.0, false);
    }
}

fn connect_meanwhile(fd: RawFd, connect: impl Fn() -> io::Result<c_int>) -> io::Result<c_int> {
    /// Pause before a Unix socket tries again to connect to a listener whose queue is full, for which
    /// there is no event.
    const FULL_PAUSE: Duration = Duration::from_millis(1);
    set_nonblocking(fd, true)?;
    let _meanwhile = Nonblocking(fd);
    let mut has_begun = false;
    loop {
        let connected = connect();
        match connected.as_ref().err().and_then(io::Error::raw_os_error) {
            Some(libc::EINPROGRESS) => has_begun = true,
            Some(libc::EALREADY) if has_begun => {}
            Some(libc::EISCONN) if has_begun => return Ok(0),
            Some(libc::EAGAIN) => {
                sleep::pause(deadline::after(FULL_PAUSE))?;
                continue;
            }
            _ => return connected,
        }
        descriptor::wait(fd, Events::WRITABLE, for_ever())?;
    }
}
