//! Who the peer is.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The process at the other end, as it was when it connected or listened.
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
pub struct UCred {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The process; none if it is in a namespace that this one does not see.
    pub pid: Option<i32>,
}

/// Not by `rustix`, for which a process without a number here is no value.
#[allow(unsafe_code, reason = "an option whose value may be zero")]
pub(super) fn of_peer(socket: BorrowedFd<'_>) -> io::Result<UCred> {
    let mut found = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure is the option's, live and as long as is said.
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
