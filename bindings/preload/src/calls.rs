//! Calls that wait: a fiber is suspended; a thread of the system makes the call of the C library, so
//! that signals interrupt it.

use std::ffi::{c_char, c_int, c_uint, c_void};

use uthread_pthread::{children, epoll, files, poll as several, record, sleep as sleeps, sockets};

use crate::functions::Function;
use crate::real::real;
use crate::report;

/// Defines what takes the place of each call.
macro_rules! calls {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty, $fiber:path;)*) => {
        $(
            #[allow(unsafe_code, reason = "a C function")]
            pub(crate) unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> $result {
                if record::is_fiber() {
                    report::carry(Function::$name);
                    #[allow(unused_unsafe, reason = "some of them are safe")]
                    // SAFETY: the contract of the call is the caller's.
                    return unsafe { $fiber($($argument),*) };
                }
                let call = real!($name: fn($($kind),*) -> $result);
                // SAFETY: the contract of the call is the caller's.
                unsafe { call($($argument),*) }
            }
        )*
    };
}

calls! {
    read(a0: c_int, a1: *mut c_void, a2: usize) -> isize, files::uthread_read;
    write(a0: c_int, a1: *const c_void, a2: usize) -> isize, files::uthread_write;
    pread(a0: c_int, a1: *mut c_void, a2: usize, a3: libc::off_t) -> isize, files::uthread_pread;
    pread64(a0: c_int, a1: *mut c_void, a2: usize, a3: libc::off_t) -> isize, files::uthread_pread;
    pwrite(a0: c_int, a1: *const c_void, a2: usize, a3: libc::off_t) -> isize, files::uthread_pwrite;
    pwrite64(a0: c_int, a1: *const c_void, a2: usize, a3: libc::off_t) -> isize, files::uthread_pwrite;
    readv(a0: c_int, a1: *const libc::iovec, a2: c_int) -> isize, files::uthread_readv;
    writev(a0: c_int, a1: *const libc::iovec, a2: c_int) -> isize, files::uthread_writev;
    fsync(a0: c_int) -> c_int, files::uthread_fsync;
    fdatasync(a0: c_int) -> c_int, files::uthread_fdatasync;
    open(a0: *const c_char, a1: c_int, a2: libc::mode_t) -> c_int, files::uthread_open;
    open64(a0: *const c_char, a1: c_int, a2: libc::mode_t) -> c_int, files::uthread_open;
    openat(a0: c_int, a1: *const c_char, a2: c_int, a3: libc::mode_t) -> c_int, files::uthread_openat;
    openat64(a0: c_int, a1: *const c_char, a2: c_int, a3: libc::mode_t) -> c_int, files::uthread_openat;
    recv(a0: c_int, a1: *mut c_void, a2: usize, a3: c_int) -> isize, sockets::uthread_recv;
    recvfrom(a0: c_int, a1: *mut c_void, a2: usize, a3: c_int, a4: *mut libc::sockaddr, a5: *mut libc::socklen_t) -> isize, sockets::uthread_recvfrom;
    recvmsg(a0: c_int, a1: *mut libc::msghdr, a2: c_int) -> isize, sockets::uthread_recvmsg;
    send(a0: c_int, a1: *const c_void, a2: usize, a3: c_int) -> isize, sockets::uthread_send;
    sendto(a0: c_int, a1: *const c_void, a2: usize, a3: c_int, a4: *const libc::sockaddr, a5: libc::socklen_t) -> isize, sockets::uthread_sendto;
    sendmsg(a0: c_int, a1: *const libc::msghdr, a2: c_int) -> isize, sockets::uthread_sendmsg;
    accept(a0: c_int, a1: *mut libc::sockaddr, a2: *mut libc::socklen_t) -> c_int, sockets::uthread_accept;
    accept4(a0: c_int, a1: *mut libc::sockaddr, a2: *mut libc::socklen_t, a3: c_int) -> c_int, sockets::uthread_accept4;
    connect(a0: c_int, a1: *const libc::sockaddr, a2: libc::socklen_t) -> c_int, sockets::uthread_connect;
    poll(a0: *mut libc::pollfd, a1: libc::nfds_t, a2: c_int) -> c_int, several::uthread_poll;
    select(a0: c_int, a1: *mut libc::fd_set, a2: *mut libc::fd_set, a3: *mut libc::fd_set, a4: *mut libc::timeval) -> c_int, several::uthread_select;
    ppoll(a0: *mut libc::pollfd, a1: libc::nfds_t, a2: *const libc::timespec, a3: *const libc::sigset_t) -> c_int, several::uthread_ppoll;
    pselect(a0: c_int, a1: *mut libc::fd_set, a2: *mut libc::fd_set, a3: *mut libc::fd_set, a4: *const libc::timespec, a5: *const libc::sigset_t) -> c_int, several::uthread_pselect;
    epoll_wait(a0: c_int, a1: *mut libc::epoll_event, a2: c_int, a3: c_int) -> c_int, epoll::uthread_epoll_wait;
    epoll_pwait(a0: c_int, a1: *mut libc::epoll_event, a2: c_int, a3: c_int, a4: *const libc::sigset_t) -> c_int, epoll::uthread_epoll_pwait;
    waitpid(a0: libc::pid_t, a1: *mut c_int, a2: c_int) -> libc::pid_t, children::uthread_waitpid;
    wait4(a0: libc::pid_t, a1: *mut c_int, a2: c_int, a3: *mut libc::rusage) -> libc::pid_t, children::uthread_wait4;
    waitid(a0: libc::idtype_t, a1: libc::id_t, a2: *mut libc::siginfo_t, a3: c_int) -> c_int, children::uthread_waitid;
    sleep(a0: c_uint) -> c_uint, sleeps::uthread_sleep;
    usleep(a0: c_uint) -> c_int, sleeps::uthread_usleep;
    nanosleep(a0: *const libc::timespec, a1: *mut libc::timespec) -> c_int, sleeps::uthread_nanosleep;
    clock_nanosleep(a0: libc::clockid_t, a1: c_int, a2: *const libc::timespec, a3: *mut libc::timespec) -> c_int, sleeps::uthread_clock_nanosleep;
}

/// `wait`.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C-unwind" fn wait(status: *mut c_int) -> libc::pid_t {
    // SAFETY: the contract of the call is the caller's.
    unsafe { waitpid(-1, status, 0) }
}

/// `wait3`.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C-unwind" fn wait3(
    status: *mut c_int,
    options: c_int,
    usage: *mut libc::rusage,
) -> libc::pid_t {
    // SAFETY: the contract of the call is the caller's.
    unsafe { wait4(-1, status, options, usage) }
}
