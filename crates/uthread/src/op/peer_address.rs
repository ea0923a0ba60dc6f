//! The address of a peer, as the kernel writes it.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::slice;

use rustix::net::SocketAddrAny;
use rustix::net::addr::SocketAddrStorage;

/// The buffer for the address of a peer.
pub(crate) struct PeerAddress {
    pub(crate) storage: libc::sockaddr_storage,
    pub(crate) length: libc::socklen_t,
}

impl PeerAddress {
    #[allow(unsafe_code, reason = "an empty address is all zeroes")]
    pub(crate) fn new() -> PeerAddress {
        PeerAddress {
            // SAFETY: `sockaddr_storage` is plain bytes and integers; zero is valid for each.
            storage: unsafe { mem::zeroed() },
            length: size_of::<libc::sockaddr_storage>() as libc::socklen_t,
        }
    }

    /// Returns the bytes that the kernel has written.
    #[allow(unsafe_code, reason = "the kernel's bytes are read as such")]
    pub(crate) fn bytes(&self) -> &[u8] {
        let length = (self.length as usize).min(size_of_val(&self.storage));
        // SAFETY: the storage is completely initialized, has no padding, and is longer than
        // `length`.
        unsafe { slice::from_raw_parts((&raw const self.storage).cast(), length) }
    }

    /// Converts the address to an internet address.
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` if the address is of another family.
    #[allow(unsafe_code, reason = "the kernel's bytes are read as an address")]
    pub(crate) fn to_socket_addr(&self) -> io::Result<SocketAddr> {
        if (self.length as usize) < size_of::<libc::sa_family_t>() {
            return Err(rustix::io::Errno::AFNOSUPPORT.into());
        }
        let storage = (&raw const self.storage).cast::<SocketAddrStorage>();
        // SAFETY: the storage is completely initialized and longer than any length that the kernel
        // reports.
        let address = unsafe { SocketAddrAny::read(storage, self.length) };
        Ok(SocketAddr::try_from(address)?)
    }
}
