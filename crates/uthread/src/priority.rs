//! Priorities: which fibers run first, and whose requests reach the kernel first.
//!
//! A fiber is [urgent, normal or background](Priority). Children inherit the priority of the fiber
//! that spawns them, also in a [`scope`](crate::scope).
//! [`Builder::priority`](crate::thread::Builder::priority) gives a fiber another one from its start
//! on, and [`with`] a part of its work, such as a single call.
//!
//! ```
//! use uthread::priority::{self, Priority};
//! use uthread::{fs, scope};
//!
//! uthread::run(|| {
//!     priority::with(Priority::Background, || {
//!         scope(|scope| {
//!             // A child inherits.
//!             scope.spawn(|| assert_eq!(priority::current(), Priority::Background));
//!         });
//!     });
//!     // A single call that does not wait behind the others.
//!     let text = priority::with(Priority::Urgent, || fs::read_to_string("Cargo.toml"))?;
//!     assert!(text.starts_with("[package]"));
//!     Ok::<(), std::io::Error>(())
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What it orders
//!
//! - The fibers of a worker that can run, and new fibers that wait for any worker. A fiber keeps
//!   its worker until its next call that waits or yields, whatever its priority is: split long
//!   computations, or pass them to [`blocking`](crate::blocking()). Once some fiber has a priority,
//!   workers look for what has become ready every 50 microseconds, and calls that need not wait
//!   yield then.
//! - The requests of one flush: a worker submits the requests of its fibers together, now and then,
//!   and urgent ones come before normal ones, and those before background ones. The requests of one
//!   [`submit_all`](crate::ring::submit_all) stay together.
//! - Reads and writes of files, in the queue of the disk: they carry an I/O priority of the
//!   class *best effort*, 0 if urgent and 7 if background, which the schedulers BFQ and mq-deadline
//!   respect. Normal ones have the I/O priority of the process, see `ionice(1)`.
//! - Calls that a [pool of threads](crate::blocking()) performs, such as those on files with
//!   [`Driver::Epoll`](crate::Driver::Epoll), while all its threads are busy.
//! - Packets, if you ask for it with [`set_socket_priority`].
//!
//! # Nothing starves
//!
//! Urgent fibers run first, but at most 32 turns more than the others, as long as others wait. A
//! flood of urgent fibers therefore takes every second turn of a worker, and not all of them. Among
//! the others, a background fiber has a turn after eight normal ones. So the background fiber that
//! has waited longest waits for at most 40 turns of urgent and 8 turns of normal fibers of its
//! worker, and the normal fiber that has waited longest for at most 33 turns of urgent fibers and
//! one of a background fiber.
//!
//! # Limits
//!
//! A lock has no priority: an urgent fiber that waits for a lock waits for the fiber that holds it,
//! whatever the priority of that one is. With [`Driver::Threads`](crate::Driver::Threads), fibers
//! are threads and the kernel schedules them: a priority is inherited and returned there, but
//! orders no fibers. Outside of fibers, [`with`] only calls its closure.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::sched::caller;

pub use crate::priorities::Priority;

/// Calls `f` with this priority. The previous priority of the calling fiber is restored when `f`
/// returns or unwinds.
///
/// Outside of fibers, this only calls `f`.
///
/// ```
/// use uthread::priority::{self, Priority};
///
/// uthread::run(|| {
///     let inner = priority::with(Priority::Background, || {
///         priority::with(Priority::Urgent, priority::current)
///     });
///     assert_eq!(inner, Priority::Urgent);
///     assert_eq!(priority::current(), Priority::Normal);
/// });
/// let outside = priority::with(Priority::Urgent, priority::current);
/// assert_eq!(outside, Priority::Normal);
/// ```
pub fn with<R>(priority: Priority, f: impl FnOnce() -> R) -> R {
    let _restored = Restored(caller::set_priority(priority));
    f()
}

/// Restores the previous priority on drop.
struct Restored(Priority);

impl Drop for Restored {
    fn drop(&mut self) {
        caller::set_priority(self.0);
    }
}

/// Returns the priority of the calling fiber; outside of fibers, [`Priority::Normal`].
///
/// ```
/// use uthread::priority::{self, Priority};
///
/// assert_eq!(priority::current(), Priority::Normal);
/// ```
pub fn current() -> Priority {
    caller::priority()
}

/// Sets `SO_PRIORITY` of a socket: the order in which the queue of a network device sends its
/// packets.
///
/// The values are those of `tc-prio(8)` for interactive, best effort and bulk traffic: 6, 0 and 2,
/// which any process may set. A socket inherits nothing from the fiber that uses it, as that would
/// take a system call for each connection.
///
/// # Errors
///
/// `ENOTSOCK` if it is no socket; any other error that `setsockopt(2)` reports.
///
/// ```
/// use uthread::net::UdpSocket;
/// use uthread::priority::{Priority, set_socket_priority};
///
/// let heartbeats = UdpSocket::bind("127.0.0.1:0")?;
/// set_socket_priority(&heartbeats, Priority::Urgent)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[allow(unsafe_code, reason = "a socket option that rustix does not support")]
pub fn set_socket_priority(socket: impl AsFd, priority: Priority) -> io::Result<()> {
    // `TC_PRIO_INTERACTIVE`, `TC_PRIO_BESTEFFORT` and `TC_PRIO_BULK`.
    let value: libc::c_int = match priority {
        Priority::Urgent => 6,
        Priority::Normal => 0,
        Priority::Background => 2,
    };
    // SAFETY: the pointer is to a live integer, the value of this option, and the length is its
    // size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PRIORITY,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "a socket option that rustix does not support")]
    fn the_priority_of_a_socket_is_that_of_its_traffic() {
        let socket = crate::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let values = Priority::ALL.map(|priority| {
            set_socket_priority(&socket, priority).unwrap();
            let mut value: libc::c_int = -1;
            let mut length = size_of_val(&value) as libc::socklen_t;
            // SAFETY: the pointers are to a live integer, the value of this option, and to its
            // size.
            let result = unsafe {
                libc::getsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_PRIORITY,
                    (&raw mut value).cast(),
                    &raw mut length,
                )
            };
            assert_eq!(result, 0);
            value
        });
        assert_eq!(values, [6, 0, 2]);
        let refused = set_socket_priority(std::io::pipe().unwrap().0, Priority::Urgent);
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
    }
}
