//! System calls by `syscall(2)` that leave a simulated world (`uthread-simulation`), as that does not hear of
//! them otherwise: what they do is the kernel's, in real time.

use std::ffi::c_long;

use uthread::interposition;

use crate::{raw, rule};

/// The calls, with their names: those that wait, change files or send something, and those that make a thread
/// or a process. Those that only ask, and those on descriptors that were opened in the world, do not count.
const CALLS: [(c_long, &str); 51] = [
    (libc::SYS_accept, "accept"),
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_bind, "bind"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_clone3, "clone3"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_copy_file_range, "copy_file_range"),
    (libc::SYS_creat, "creat"),
    (libc::SYS_epoll_pwait, "epoll_pwait"),
    (libc::SYS_epoll_pwait2, "epoll_pwait2"),
    (libc::SYS_epoll_wait, "epoll_wait"),
    (libc::SYS_execve, "execve"),
    (libc::SYS_execveat, "execveat"),
    (libc::SYS_fork, "fork"),
    (libc::SYS_gettimeofday, "gettimeofday"),
    (libc::SYS_io_submit, "io_submit"),
    (libc::SYS_io_uring_setup, "io_uring_setup"),
    (libc::SYS_link, "link"),
    (libc::SYS_linkat, "linkat"),
    (libc::SYS_mkdir, "mkdir"),
    (libc::SYS_mkdirat, "mkdirat"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_open, "open"),
    (libc::SYS_openat, "openat"),
    (libc::SYS_openat2, "openat2"),
    (libc::SYS_poll, "poll"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_pselect6, "pselect6"),
    (libc::SYS_pwrite64, "pwrite64"),
    (libc::SYS_pwritev, "pwritev"),
    (libc::SYS_pwritev2, "pwritev2"),
    (libc::SYS_rename, "rename"),
    (libc::SYS_renameat, "renameat"),
    (libc::SYS_renameat2, "renameat2"),
    (libc::SYS_rmdir, "rmdir"),
    (libc::SYS_select, "select"),
    (libc::SYS_sendfile, "sendfile"),
    (libc::SYS_sendmmsg, "sendmmsg"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_splice, "splice"),
    (libc::SYS_symlink, "symlink"),
    (libc::SYS_symlinkat, "symlinkat"),
    (libc::SYS_time, "time"),
    (libc::SYS_truncate, "truncate"),
    (libc::SYS_unlink, "unlink"),
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_vfork, "vfork"),
    (libc::SYS_write, "write"),
    (libc::SYS_writev, "writev"),
];

/// Returns `true` if a system call leaves a world, and the caller may be the program.
#[doc(hidden)]
#[must_use]
pub fn leaves_world(number: c_long) -> bool {
    name(number).is_some()
}

/// Returns the name of a system call that leaves a world, unless the library makes it for itself.
fn name(number: c_long) -> Option<&'static str> {
    let mut calls = CALLS.iter().filter(|_| rule::suspends());
    let (_, name) = calls.find(|(of_call, _)| *of_call == number)?;
    Some(name)
}

/// Tells the world of the caller of a system call that leaves it. Returns `true` if that denies it; the error
/// number is then in `errno`.
#[doc(hidden)]
#[must_use]
pub fn is_refused(number: c_long) -> bool {
    let Some(world) = interposition::world() else {
        return false;
    };
    let Some(name) = name(number) else {
        return false;
    };
    let what = format!("makes the system call `{name}` itself");
    let refused = rule::within(|| {
        if world.escape(&what).is_err() {
            -1_i8
        } else {
            0
        }
    });
    if refused != 0 {
        raw::set_errno(libc::EPERM);
    }
    refused != 0
}
