//! Credentials of the peer process.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The credentials of the peer process at the time at which it connected or started to listen.
///
/// ```
/// use uthread::net::UnixStream;
///
/// let (ours, _theirs) = UnixStream::pair()?;
/// let peer = ours.peer_cred()?;
/// assert_eq!(peer.pid, Some(std::process::id().cast_signed()));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct UCred {
    /// The effective user ID.
    pub uid: u32,
    /// The effective group ID.
    pub gid: u32,
    /// The process ID; `None` if the process is in a PID namespace that this process cannot see.
    pub pid: Option<i32>,
}

/// Reads `SO_PEERCRED`. Calls `getsockopt` directly, as the type of `rustix` cannot represent a
/// process without an ID.
#[allow(
    unsafe_code,
    reason = "the process ID may be zero, which the type of rustix cannot represent"
)]
pub(super) fn of_peer(socket: BorrowedFd<'_>) -> io::Result<UCred> {
    let mut found = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the pointer is to a live `ucred`, the structure of this option, and the length is its
    // size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(UCred {
        uid: found.uid,
        gid: found.gid,
        pid: (found.pid != 0).then_some(found.pid),
    })
}
