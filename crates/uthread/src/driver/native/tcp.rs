//! The actual type of a socket: the public type does not determine it, as a program may wrap any descriptor.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::resource::descriptor::Descriptor;

/// Returns `true` if a receive that returns fewer bytes than requested has emptied the queue. The kernel is
/// queried once per descriptor.
///
/// This holds for plain TCP, except at the mark of urgent data, whose event reports it. It does not hold for
/// sockets with message boundaries, nor if a protocol above TCP has records, such as TLS in the kernel, or
/// merges several connections, such as Multipath TCP.
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

/// Returns `true` if the next byte is behind the mark of urgent data, at which a receive stops short.
#[allow(unsafe_code, reason = "a request that no crate offers")]
pub(in crate::driver) fn is_at_mark(socket: BorrowedFd<'_>) -> bool {
    const SIOCATMARK: libc::Ioctl = 0x8905;
    let mut is_at_mark: libc::c_int = 0;
    // SAFETY: the request writes an integer, which is live and writable.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCATMARK, &raw mut is_at_mark) };
    // If the socket cannot be queried, another receive finds out.
    result != 0 || is_at_mark != 0
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, socket};

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

    #[test]
    fn a_receive_that_ends_short_at_urgent_data_is_told_from_one_that_drains() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        let send = |bytes: &[u8], flags| rustix::net::send(&theirs, bytes, flags).unwrap();
        let receive = |buffer: &mut [u8]| rustix::net::recv(&ours, buffer, RecvFlags::empty());
        send(b"before", SendFlags::empty());
        assert_eq!(receive(&mut [0; 10]).unwrap().0, 6);
        assert!(!is_at_mark(ours.as_fd()));
        send(b"ab!", SendFlags::OOB);
        send(b"cd", SendFlags::empty());
        assert_eq!(receive(&mut [0; 10]).unwrap().0, 2);
        assert!(is_at_mark(ours.as_fd()));
        assert_eq!(receive(&mut [0; 10]).unwrap().0, 2);
        assert!(!is_at_mark(ours.as_fd()));
    }
}
