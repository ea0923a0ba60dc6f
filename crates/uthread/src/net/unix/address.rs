//! Conversion of Unix socket addresses between the `std` type and the kernel's form.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix};

use crate::op::peer_address::PeerAddress;
use crate::sched::features::offload;

/// Converts an address to the kernel's form.
pub(super) fn encode(address: &SocketAddr) -> io::Result<SocketAddrAny> {
    let address = match (address.as_pathname(), address.as_abstract_name()) {
        (Some(path), _) => SocketAddrUnix::new(path)?,
        (None, Some(name)) => SocketAddrUnix::new_abstract_name(name)?,
        (None, None) => SocketAddrUnix::new_unnamed(),
    };
    Ok(address.into())
}

/// Converts an address that the kernel has written. A path of the maximum length has no terminating
/// zero byte; the `std` type cannot represent it, so the result is the unnamed address.
///
/// # Errors
///
/// `EAFNOSUPPORT` if the address is of another family.
pub(super) fn decode(address: &PeerAddress) -> io::Result<SocketAddr> {
    let unnamed = || SocketAddr::from_pathname("");
    let Some((family, name)) = address.bytes().split_first_chunk() else {
        return unnamed();
    };
    if u16::from_ne_bytes(*family) != AddressFamily::UNIX.as_raw() {
        return Err(Errno::AFNOSUPPORT.into());
    }
    match name {
        [] => unnamed(),
        [0, name @ ..] => SocketAddr::from_abstract_name(name),
        path => {
            let end = path.iter().position(|byte| *byte == 0);
            let path = OsStr::from_bytes(&path[..end.unwrap_or(path.len())]);
            SocketAddr::from_pathname(path).or_else(|_| unnamed())
        }
    }
}

/// Calls `bind`, outside the worker if that creates a file.
pub(super) fn bind<S: Send>(
    address: &SocketAddr,
    bind: impl FnOnce(&SocketAddr) -> io::Result<S> + Send,
) -> io::Result<S> {
    match address.as_pathname() {
        Some(_) => offload::perform(|| bind(address)),
        None => bind(address),
    }
}
