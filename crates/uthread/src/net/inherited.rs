//! Listeners that the process inherits from its parent, by the protocol of `sd_listen_fds(3)`.
//!
//! The parent, such as systemd, listens before it starts the process, and the sockets outlive it:
//! connections that arrive while the process is restarted wait in the kernel's queue.

use std::env::{self, VarError};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketType, ipproto, sockopt};

use super::{TcpListener, UnixListener};

/// The descriptor of the first socket (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;
/// Maximum number of sockets: the most descriptors that the kernel's default `fs.nr_open` allows a
/// process.
const COUNT_MAX: u32 = 1 << 20;
/// Maximum number of a process: those of the kernel are positive values of type `int`.
const PID_MAX: u32 = i32::MAX.unsigned_abs();
/// The name of a socket that the parent has not named, as in `sd_listen_fds_with_names(3)`.
const UNNAMED: &str = "unknown";

/// `true` once the descriptors have an owner. Relaxed: the exchange alone decides who takes them.
static ARE_TAKEN: AtomicBool = AtomicBool::new(false);

/// A listener that the process has inherited. See the example of [`listeners_from_env`].
#[derive(Debug)]
#[non_exhaustive]
pub struct InheritedListener {
    /// The name that the parent gave to the socket, such as by `FileDescriptorName=` of systemd;
    /// `unknown` without one.
    pub name: String,
    /// The socket.
    pub socket: InheritedSocket,
}

/// The kinds of listeners that a process can inherit. See the example of [`listeners_from_env`].
#[derive(Debug)]
#[non_exhaustive]
pub enum InheritedSocket {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix stream socket.
    Unix(UnixListener),
}

/// Takes the listeners that the parent process passes by the protocol of `sd_listen_fds(3)`, as
/// systemd does for socket units.
///
/// The environment describes them: `LISTEN_PID` is the process that they are for, `LISTEN_FDS` is
/// their number, and `LISTEN_FDNAMES` has their names, separated by colons. Their descriptors begin
/// with 3. Child processes do not inherit them further: the function sets `FD_CLOEXEC`.
///
/// Only the first call returns them. Later calls return an empty list, as does a call in a process
/// that inherits none. Calls of the listeners wait, also if another process that shares a socket
/// has made it non-blocking.
///
/// # Errors
///
/// `InvalidInput` if a variable is malformed, or if a descriptor is not open, is not inherited, or
/// is not a listening TCP or Unix stream socket; the message says which. After an error the
/// descriptors are as they were before.
///
/// ```
/// use std::io;
/// use uthread::net::{InheritedSocket, TcpListener, listeners_from_env};
///
/// /// Returns the inherited socket, or a new one if the program was started by hand.
/// fn listen() -> io::Result<TcpListener> {
///     match listeners_from_env()?.pop().map(|inherited| inherited.socket) {
///         Some(InheritedSocket::Tcp(listener)) => Ok(listener),
///         Some(other) => Err(io::Error::other(format!("not a TCP socket: {other:?}"))),
///         None => TcpListener::bind("127.0.0.1:0"),
///     }
/// }
///
/// assert_ne!(listen()?.local_addr()?.port(), 0);
/// # Ok::<(), io::Error>(())
/// ```
pub fn listeners_from_env() -> io::Result<Vec<InheritedListener>> {
    let variables = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"].map(env::var);
    let names = names(variables, process::id())?;
    if names.is_empty() || ARE_TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let kinds: io::Result<Vec<_>> = (FIRST..).zip(&names).map(|(fd, _)| check(fd)).collect();
    let kinds = kinds.inspect_err(|_| ARE_TAKEN.store(false, Ordering::Relaxed))?;
    let listeners = (FIRST..).zip(names).zip(kinds).map(|((fd, name), kind)| {
        let fd = take(fd);
        let socket = match kind {
            Kind::Tcp => InheritedSocket::Tcp(TcpListener::inherit(fd)),
            Kind::Unix => InheritedSocket::Unix(UnixListener::inherit(fd)),
        };
        InheritedListener { name, socket }
    });
    Ok(listeners.collect())
}

/// Returns the name of each socket that the variables `LISTEN_PID`, `LISTEN_FDS` and
/// `LISTEN_FDNAMES` describe. There is none if a variable is missing, or if the sockets are for a
/// process other than `own`.
fn names(variables: [Result<String, VarError>; 3], own: u32) -> io::Result<Vec<String>> {
    let [pid, fds, names] = variables;
    let (pid, fds) = (
        number("LISTEN_PID", pid, PID_MAX)?,
        number("LISTEN_FDS", fds, COUNT_MAX)?,
    );
    let Some(fds) = fds.filter(|_| pid == Some(own)) else {
        return Ok(Vec::new());
    };
    let names: Vec<String> = match names {
        Ok(names) => names.split(':').map(str::to_owned).collect(),
        Err(VarError::NotPresent) => vec![UNNAMED.to_owned(); fds as usize],
        Err(VarError::NotUnicode(_)) => return Err(invalid("LISTEN_FDNAMES is not UTF-8")),
    };
    if names.len() != fds as usize {
        let count = names.len();
        return Err(invalid(format!(
            "LISTEN_FDNAMES has {count} names, but LISTEN_FDS is {fds}"
        )));
    }
    Ok(names)
}

/// Parses a variable whose value is a number from 1 to `max`.
fn number(variable: &str, value: Result<String, VarError>, max: u32) -> io::Result<Option<u32>> {
    let value = match value {
        Ok(value) => value,
        Err(VarError::NotPresent) => return Ok(None),
        Err(VarError::NotUnicode(value)) => value.to_string_lossy().into_owned(),
    };
    match value.parse() {
        Ok(number) if (1..=max).contains(&number) => Ok(Some(number)),
        _ => Err(invalid(format!(
            "{variable}={value} is not a number from 1 to {max}"
        ))),
    }
}

fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message.into())
}

enum Kind {
    Tcp,
    Unix,
}

/// Checks that a descriptor is an inherited listener, and returns its kind.
fn check(number: RawFd) -> io::Result<Kind> {
    let fault = |what: &str| invalid(format!("descriptor {number} of LISTEN_FDS {what}"));
    let fd = inherited(number).map_err(fault)?;
    let is_listener = sockopt::socket_acceptconn(fd) == Ok(true)
        && sockopt::socket_type(fd) == Ok(SocketType::STREAM);
    if !is_listener {
        return Err(fault("is not a listening stream socket"));
    }
    match (sockopt::socket_domain(fd)?, sockopt::socket_protocol(fd)?) {
        (AddressFamily::UNIX, _) => Ok(Kind::Unix),
        (AddressFamily::INET | AddressFamily::INET6, Some(ipproto::TCP)) => Ok(Kind::Tcp),
        _ => Err(fault("is neither a TCP nor a Unix socket")),
    }
}

/// Returns a descriptor that is open and has been since the start of the program, or what is wrong
/// with it.
#[allow(
    unsafe_code,
    reason = "a number from the environment becomes a descriptor"
)]
fn inherited(number: RawFd) -> Result<BorrowedFd<'static>, &'static str> {
    // SAFETY: the call only reads the flags of a descriptor, or fails if there is none.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags == -1 {
        return Err("is not open");
    }
    // Descriptors that the program itself opens have this flag, in `std` and in this crate;
    // inherited ones cannot have it.
    if flags & libc::FD_CLOEXEC != 0 {
        return Err("is open, but not inherited");
    }
    // SAFETY: the descriptor is open. It is inherited, so no value in this process owns it and
    // could close it; the caller ends the borrow before it takes the descriptor.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Takes ownership of a descriptor that [`check`] has accepted, at most once in the life of the
/// process.
#[allow(
    unsafe_code,
    reason = "takes ownership of a descriptor that the process has inherited"
)]
fn take(number: RawFd) -> OwnedFd {
    // SAFETY: `check` has found the descriptor open and inherited, so nothing in this process owns
    // it, and `ARE_TAKEN` excludes a second owner. The parent has passed it for this use:
    // `LISTEN_PID` is this process.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    // `fcntl_setfd` does not fail for an open descriptor.
    let _ = rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC);
    fd
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 42;

    /// Checks the names of the sockets, or a part of the error.
    fn check(variables: [Option<&str>; 3], expected: Result<&[&str], &str>) {
        let values = variables.map(|value| value.map(str::to_owned).ok_or(VarError::NotPresent));
        match (names(values, OWN), expected) {
            (Ok(names), Ok(expected)) => assert_eq!(names, expected, "{variables:?}"),
            (Err(error), Err(part)) => {
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
                assert!(error.to_string().contains(part), "{error}");
            }
            (found, expected) => panic!("{variables:?}: {found:?} and not {expected:?}"),
        }
    }

    #[test]
    fn variables_for_this_process_describe_its_sockets() {
        check([Some("42"), Some("1"), None], Ok(&["unknown"]));
        check([Some("42"), Some("2"), None], Ok(&["unknown", "unknown"]));
        check([Some("42"), Some("2"), Some("web:")], Ok(&["web", ""]));
        check([Some("42"), Some("1"), Some("web")], Ok(&["web"]));
    }

    #[test]
    fn missing_variables_and_those_for_other_processes_describe_none() {
        check([None, None, None], Ok(&[]));
        check([None, Some("1"), Some("web")], Ok(&[]));
        check([Some("42"), None, None], Ok(&[]));
        check([Some("43"), Some("1"), Some("web:other")], Ok(&[]));
    }

    #[test]
    fn malformed_variables_are_refused() {
        for pid in ["", "self", "0", "-1", "4294967296"] {
            check([Some(pid), Some("1"), None], Err("LISTEN_PID="));
        }
        for fds in ["", "all", "0", "-1", "1048577"] {
            let range = "is not a number from 1 to 1048576";
            check([Some("42"), Some(fds), None], Err(range));
        }
        let count = "LISTEN_FDNAMES has 2 names, but LISTEN_FDS is 1";
        check([Some("42"), Some("1"), Some("a:b")], Err(count));
    }
}
