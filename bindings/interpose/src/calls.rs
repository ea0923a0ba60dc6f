//! Calls that wait.
//!
//! A call on a descriptor ends with `ECANCELED` or `ETIMEDOUT` if its fiber is cancelled, or has a
//! deadline that passes. Sleeps do not: `std` expects that they end by time or by a signal. Neither do
//! writes to standard output and standard error, nor `epoll_wait`: event loops, such as Tokio's in the crate `postgres`, panic if it fails.

use std::ffi::{c_int, c_long, c_void};
use std::ptr;

use uthread_pthread::{
    children, epoll as events_of, files, poll as several, sleep as sleeps, sockets,
};

use crate::{raw, rule, world};

/// Defines functions of the C library, each with what suspends a fiber, and the system call.
macro_rules! calls {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty,
        $fiber:expr, $number:ident($($word:expr),*);)*) => {
        $(
            #[allow(unsafe_code, reason = "a function of the C library")]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
                if rule::suspends() {
                    #[allow(unused_unsafe, reason = "some of them are safe")]
                    // SAFETY: the contract of the call is the caller's.
                    return rule::within(|| unsafe { $fiber($($argument),*) });
                }
                // SAFETY: the contract of the call is the caller's.
                (unsafe { raw::call(libc::$number, [$($word as usize),*]) }) as $result
            }
        )*
    };
}

/// Makes a call that writes. To standard output and standard error it goes on: `println` panics if it
/// fails, and what a fiber says of its deadline would be lost.
fn output<T>(fd: c_int, call: impl FnOnce() -> T) -> T {
    if [libc::STDOUT_FILENO, libc::STDERR_FILENO].contains(&fd) {
        return uthread::shield(call);
    }
    call()
}

/// Tells the world of a write to a file.
fn writes(fd: c_int, offset: Option<u64>, length: impl Fn() -> usize) -> Result<(), isize> {
    let prepared = world::prepare(|world| world.write(fd, offset, length()));
    prepared.map_err(|failed| failed as isize)
}

/// Returns the number of bytes of several buffers.
///
/// # Safety
///
/// There are so many.
#[allow(unsafe_code, reason = "memory of the program")]
unsafe fn length_of(vectors: *const libc::iovec, count: c_int) -> usize {
    let at = |index| {
        // SAFETY: by the caller's contract.
        unsafe { vectors.wrapping_add(index).read() }.iov_len
    };
    (0..usize::try_from(count).unwrap_or(0)).map(at).sum()
}

calls! {
    read(fd: c_int, buffer: *mut c_void, length: usize) -> isize,
        files::uthread_read, SYS_read(fd, buffer, length);
    write(fd: c_int, buffer: *const c_void, length: usize) -> isize,
        |fd, buffer, length| match writes(fd, None, || length) {
            Ok(()) => world::send_one(fd, buffer, length, (ptr::null(), 0))
                .unwrap_or_else(|| output(fd, || files::uthread_write(fd, buffer, length))),
            Err(failed) => failed,
        }, SYS_write(fd, buffer, length);
    readv(fd: c_int, vectors: *const libc::iovec, count: c_int) -> isize,
        files::uthread_readv, SYS_readv(fd, vectors, count);
    writev(fd: c_int, vectors: *const libc::iovec, count: c_int) -> isize,
        |fd, vectors, count| match writes(fd, None, || length_of(vectors, count)) {
            Ok(()) => world::send_several(fd, vectors, count as usize, None)
                .unwrap_or_else(|| output(fd, || files::uthread_writev(fd, vectors, count))),
            Err(failed) => failed,
        }, SYS_writev(fd, vectors, count);
    pread(fd: c_int, buffer: *mut c_void, length: usize, offset: libc::off_t) -> isize,
        files::uthread_pread, SYS_pread64(fd, buffer, length, offset);
    pread64(fd: c_int, buffer: *mut c_void, length: usize, offset: libc::off_t) -> isize,
        files::uthread_pread, SYS_pread64(fd, buffer, length, offset);
    pwrite(fd: c_int, buffer: *const c_void, length: usize, offset: libc::off_t) -> isize,
        |fd, buffer, length, offset| match writes(fd, Some(offset as u64), || length) {
            Ok(()) => files::uthread_pwrite(fd, buffer, length, offset),
            Err(failed) => failed,
        }, SYS_pwrite64(fd, buffer, length, offset);
    pwrite64(fd: c_int, buffer: *const c_void, length: usize, offset: libc::off_t) -> isize,
        |fd, buffer, length, offset| match writes(fd, Some(offset as u64), || length) {
            Ok(()) => files::uthread_pwrite(fd, buffer, length, offset),
            Err(failed) => failed,
        }, SYS_pwrite64(fd, buffer, length, offset);
    fsync(fd: c_int) -> c_int,
        |fd| world::sync(fd).unwrap_or_else(|| files::uthread_fsync(fd)), SYS_fsync(fd);
    fdatasync(fd: c_int) -> c_int,
        |fd| world::sync(fd).unwrap_or_else(|| files::uthread_fdatasync(fd)), SYS_fdatasync(fd);
    recv(fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize,
        sockets::uthread_recv, SYS_recvfrom(fd, buffer, length, flags, 0, 0);
    recvfrom(fd: c_int, buffer: *mut c_void, length: usize, flags: c_int, address: *mut libc::sockaddr, address_length: *mut libc::socklen_t) -> isize,
        sockets::uthread_recvfrom, SYS_recvfrom(fd, buffer, length, flags, address, address_length);
    recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize,
        sockets::uthread_recvmsg, SYS_recvmsg(fd, message, flags);
    send(fd: c_int, buffer: *const c_void, length: usize, flags: c_int) -> isize,
        |fd, buffer, length, flags| world::send_one(fd, buffer, length, (ptr::null(), 0))
            .unwrap_or_else(|| sockets::uthread_send(fd, buffer, length, flags)), SYS_sendto(fd, buffer, length, flags, 0, 0);
    sendto(fd: c_int, buffer: *const c_void, length: usize, flags: c_int, address: *const libc::sockaddr, address_length: libc::socklen_t) -> isize,
        |fd, buffer, length, flags, address, address_length| world::send_one(fd, buffer, length, (address, address_length))
            .unwrap_or_else(|| sockets::uthread_sendto(fd, buffer, length, flags, address, address_length)), SYS_sendto(fd, buffer, length, flags, address, address_length);
    sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize,
        |fd, message, flags| world::send_message(fd, message)
            .unwrap_or_else(|| sockets::uthread_sendmsg(fd, message, flags)), SYS_sendmsg(fd, message, flags);
    accept(fd: c_int, address: *mut libc::sockaddr, address_length: *mut libc::socklen_t) -> c_int,
        sockets::uthread_accept, SYS_accept(fd, address, address_length);
    accept4(fd: c_int, address: *mut libc::sockaddr, address_length: *mut libc::socklen_t, flags: c_int) -> c_int,
        sockets::uthread_accept4, SYS_accept4(fd, address, address_length, flags);
    connect(fd: c_int, address: *const libc::sockaddr, address_length: libc::socklen_t) -> c_int,
        |fd, address, length| match world::connect(fd, address, length) {
            Ok(None) => sockets::uthread_connect(fd, address, length),
            Ok(Some(to)) => sockets::uthread_connect(fd, (&raw const to).cast(), size_of_val(&to) as libc::socklen_t),
            Err(done) => done,
        }, SYS_connect(fd, address, address_length);
    select(count: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set, except: *mut libc::fd_set, time: *mut libc::timeval) -> c_int,
        several::uthread_select, SYS_select(count, read, write, except, time);
    epoll_wait(epoll: c_int, events: *mut libc::epoll_event, count: c_int, milliseconds: c_int) -> c_int,
        |epoll, events, count, milliseconds| uthread::shield(|| events_of::uthread_epoll_wait(epoll, events, count, milliseconds)),
        SYS_epoll_pwait(epoll, events, count, milliseconds, 0, 0);
    waitpid(process: libc::pid_t, status: *mut c_int, options: c_int) -> libc::pid_t,
        children::uthread_waitpid, SYS_wait4(process, status, options, 0);
    nanosleep(time: *const libc::timespec, rest: *mut libc::timespec) -> c_int,
        |time, rest| uthread::shield(|| sleeps::uthread_nanosleep(time, rest)), SYS_nanosleep(time, rest);
    sched_yield() -> c_int,
        || uthread::shield(|| sleeps::uthread_yield()), SYS_sched_yield();
}

/// `clock_nanosleep`, which returns an error number.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    rest: *mut libc::timespec,
) -> c_int {
    if has_fibers(clock) && rule::suspends() {
        return rule::within(|| {
            // SAFETY: the contract of the call is the caller's.
            uthread::shield(|| unsafe { sleeps::uthread_clock_nanosleep(clock, flags, time, rest) })
        });
    }
    let words = [clock as usize, flags as usize, time.addr(), rest.addr()];
    // SAFETY: the contract of the call is the caller's.
    -(unsafe { raw::result_of(libc::SYS_clock_nanosleep, words) } as c_int)
}

/// Returns `true` for a clock by which fibers can sleep.
fn has_fibers(clock: libc::clockid_t) -> bool {
    [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC].contains(&clock)
}

/// `poll`, by the system call that each CPU has.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn poll(
    descriptors: *mut libc::pollfd,
    count: libc::nfds_t,
    milliseconds: c_int,
) -> c_int {
    if rule::suspends() {
        // SAFETY: the contract of the call is the caller's.
        return rule::within(|| unsafe { several::uthread_poll(descriptors, count, milliseconds) });
    }
    let limit = (milliseconds >= 0).then(|| libc::timespec {
        tv_sec: c_long::from(milliseconds / 1000),
        tv_nsec: c_long::from(milliseconds % 1000) * 1_000_000,
    });
    // SAFETY: the contract of the call is the caller's.
    unsafe { poll_in_kernel(descriptors, count, limit, ptr::null()) }
}

#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ppoll(
    descriptors: *mut libc::pollfd,
    count: libc::nfds_t,
    time: *const libc::timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    if rule::suspends() {
        // SAFETY: the contract of the call is the caller's.
        return rule::within(|| unsafe { several::uthread_ppoll(descriptors, count, time, mask) });
    }
    // SAFETY: the contract of the call is the caller's.
    let limit = unsafe { time.as_ref() }.copied();
    // SAFETY: the contract of the call is the caller's.
    unsafe { poll_in_kernel(descriptors, count, limit, mask) }
}

/// The system call, which changes the time.
///
/// # Safety
///
/// The contract of `ppoll`.
#[allow(unsafe_code, reason = "a system call")]
unsafe fn poll_in_kernel(
    descriptors: *mut libc::pollfd,
    count: libc::nfds_t,
    mut limit: Option<libc::timespec>,
    mask: *const libc::sigset_t,
) -> c_int {
    /// What the kernel takes as a mask.
    const MASK_BYTES: usize = 8;
    let limit = limit.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    let words = [
        descriptors.addr(),
        count as usize,
        limit.addr(),
        mask.addr(),
        MASK_BYTES,
    ];
    // SAFETY: the caller's contract; the time lives until the call has returned.
    (unsafe { raw::call(libc::SYS_ppoll, words) }) as c_int
}
