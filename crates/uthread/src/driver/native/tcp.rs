//! The actual type of a socket: the public type does not determine it, as a program may wrap any
//! descriptor.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::resource::descriptor::Descriptor;

/// Returns `true` if a receive that returns fewer bytes than requested has emptied the queue. The
/// kernel is queried once per descriptor.
///
/// This holds for plain TCP, except at the mark of urgent data, whose event reports it. It does not
/// hold for sockets with message boundaries, nor if a protocol above TCP has records, such as TLS
/// in the kernel, or merges several connections, such as Multipath TCP.
pub(crate) fn drains(socket: Descriptor<'_>) -> bool {
    socket.state.drains(|| is_plain(socket.fd))
}

/// Returns `true` for a TCP socket without a protocol above it.
#[allow(unsafe_code, reason = "an option that no crate offers")]
fn is_plain(socket: BorrowedFd<'_>) -> bool {
    let mut name = [0_u8; 16];
    let mut length = name.len() as libc::socklen_t;
    // SAFETY: the name is live, writable and as long as `length` says.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_ULP,
            name.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    result == 0 && length == 0
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::net::{AddressFamily, SocketType, ipproto, socket};

    use super::*;

    #[test]
    fn only_tcp_is_plain_tcp() {
        use {AddressFamily as Family, SocketType as Type};
        let made = |family, kind, protocol| socket(family, kind, protocol).ok();
        let is_plain = |socket: OwnedFd| is_plain(socket.as_fd());
        let tcp = made(Family::INET, Type::STREAM, None).unwrap();
        assert!(is_plain(tcp));
        let multipath = made(Family::INET, Type::STREAM, Some(ipproto::MPTCP));
        assert!(!multipath.is_some_and(is_plain));
        for (family, kind) in [
            (Family::INET, Type::DGRAM),
            (Family::UNIX, Type::STREAM),
            (Family::UNIX, Type::SEQPACKET),
            (Family::UNIX, Type::DGRAM),
            (Family::NETLINK, Type::RAW),
            (Family::VSOCK, Type::STREAM),
        ] {
            assert!(
                !made(family, kind, None).is_some_and(is_plain),
                "{family:?}"
            );
        }
        assert!(!is_plain(std::io::pipe().unwrap().0.into()));
    }
}
