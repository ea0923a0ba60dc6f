//! What a socket really is: a type of the public face says nothing of the descriptor that a program has put into it.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::resource::descriptor::Descriptor;

/// Whether a receive of fewer bytes than asked for leaves none behind. The kernel is asked once for each descriptor.
///
/// It does where TCP's bytes are received as they are, but at the mark of urgent data, whose event tells of it. It does not
/// where messages have bounds; nor where a protocol above TCP has, as TLS in the kernel, or takes bytes from several
/// connections, as Multipath TCP.
pub(crate) fn drains(socket: Descriptor<'_>) -> bool {
    socket.state.drains(|| is_plain(socket.fd))
}

/// Whether it is a TCP socket without a protocol above.
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

/// Whether the next byte is behind the mark of urgent data, at which a receive ends short.
#[allow(unsafe_code, reason = "a request that no crate offers")]
pub(in crate::driver) fn is_at_mark(socket: BorrowedFd<'_>) -> bool {
    const SIOCATMARK: libc::Ioctl = 0x8905;
    let mut is_at_mark: libc::c_int = 0;
    // SAFETY: the request writes an integer, which is live and writable.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCATMARK, &raw mut is_at_mark) };
    // Where the socket does not tell, another receive finds out.
    result != 0 || is_at_mark != 0
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
