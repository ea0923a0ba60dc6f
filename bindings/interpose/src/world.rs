//! Calls of fibers in a simulated world (`uthread-simulation`), which takes the place of the kernel where
//! it wants to.

use std::ffi::{c_int, c_void};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::slice;

use uthread::interposition::{self, World};

use crate::raw;

/// Sends in the world. Returns `None` if the kernel has to do it.
pub(crate) fn send(fd: c_int, buffers: &[IoSlice<'_>], to: Option<SocketAddr>) -> Option<isize> {
    let world = interposition::world()?;
    loop {
        match world.send(fd, buffers, to)? {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && world.await_room(fd, None) => {}
            result => return Some(returned(result)),
        }
    }
}

/// Sends one buffer in the world, like [`send`].
///
/// # Safety
///
/// `buffer` has `length` bytes, and `to` is null or an address of this length.
#[allow(unsafe_code, reason = "memory of the program")]
pub(crate) unsafe fn send_one(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
    to: (*const libc::sockaddr, libc::socklen_t),
) -> Option<isize> {
    if buffer.is_null() || !exists() {
        return None;
    }
    // SAFETY: by the caller's contract.
    let bytes = unsafe { slice::from_raw_parts(buffer.cast(), length) };
    // SAFETY: by the caller's contract.
    if let Err(error) = unsafe { tell_unix(&*interposition::world()?, to.0, to.1) } {
        return Some(returned(Err(error)));
    }
    // SAFETY: by the caller's contract.
    let to = unsafe { address(to.0, to.1) };
    send(fd, &[IoSlice::new(bytes)], to)
}

/// Sends several buffers in the world, like [`send`].
///
/// # Safety
///
/// There are `count` buffers.
#[allow(unsafe_code, reason = "memory of the program")]
pub(crate) unsafe fn send_several(
    fd: c_int,
    vectors: *const libc::iovec,
    count: usize,
    to: Option<SocketAddr>,
) -> Option<isize> {
    if vectors.is_null() || !exists() {
        return None;
    }
    // SAFETY: by the caller's contract; `IoSlice` has the layout of `iovec`.
    let buffers = unsafe { slice::from_raw_parts(vectors.cast(), count) };
    send(fd, buffers, to)
}

/// Sends a message in the world, like [`send`].
///
/// # Safety
///
/// The contract of `sendmsg(2)`.
#[allow(unsafe_code, reason = "memory of the program")]
pub(crate) unsafe fn send_message(fd: c_int, message: *const libc::msghdr) -> Option<isize> {
    if !exists() {
        return None;
    }
    // SAFETY: by the caller's contract.
    let message = unsafe { message.as_ref() }?;
    let (name, length) = (message.msg_name.cast(), message.msg_namelen);
    // SAFETY: by the caller's contract.
    if let Err(error) = unsafe { tell_unix(&*interposition::world()?, name, length) } {
        return Some(returned(Err(error)));
    }
    // SAFETY: by the caller's contract.
    let to = unsafe { address(name, length) };
    // SAFETY: by the caller's contract.
    unsafe { send_several(fd, message.msg_iov, message.msg_iovlen, to) }
}

/// An address of the internet, as the kernel takes it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Address {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        match address {
            SocketAddr::V4(v4) => Address {
                v4: libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from(*v4.ip()).to_be(),
                    },
                    sin_zero: [0; 8],
                },
            },
            SocketAddr::V6(v6) => Address {
                v6: libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                },
            },
        }
    }
}

/// Connects a socket in the world. Returns the address to connect to if the kernel has to do it.
///
/// # Errors
///
/// The result if the kernel has not: 0, or -1 with the error number in `errno`.
///
/// # Safety
///
/// The contract of `connect(2)`.
#[allow(unsafe_code, reason = "memory of the program")]
pub(crate) unsafe fn connect(
    fd: c_int,
    to: *const libc::sockaddr,
    length: libc::socklen_t,
) -> Result<Option<Address>, c_int> {
    let Some(world) = interposition::world() else {
        return Ok(None);
    };
    // SAFETY: by the caller's contract.
    let Some(to) = (unsafe { address(to, length) }) else {
        // SAFETY: by the caller's contract.
        let told = unsafe { tell_unix(&*world, to, length) };
        return told.map_or_else(|error| Err(returned(Err(error)) as c_int), |()| Ok(None));
    };
    match world.connect(fd, to, None) {
        Ok(to) => to.map(|to| Some(to.into())).ok_or(0),
        Err(error) => Err(returned(Err(error)) as c_int),
    }
}

/// Tells the world that a Unix socket with this address is about to be used.
///
/// # Errors
///
/// `EPERM` if the world denies that.
///
/// # Safety
///
/// The address is null, or has this length.
#[allow(unsafe_code, reason = "memory of the program")]
unsafe fn tell_unix(
    world: &dyn World,
    to: *const libc::sockaddr,
    length: libc::socklen_t,
) -> io::Result<()> {
    // SAFETY: by the caller's contract.
    match unsafe { unix_name(to, length) } {
        Some(name) => world.reach_unix(&name),
        None => Ok(()),
    }
}

/// Returns the name in the address of a Unix socket: a path without its end, or an abstract name with the zero byte
/// at its start.
///
/// # Safety
///
/// It is null, or has this length.
#[doc(hidden)]
#[allow(unsafe_code, reason = "memory of the program")]
#[must_use]
pub unsafe fn unix_name(place: *const libc::sockaddr, length: libc::socklen_t) -> Option<Vec<u8>> {
    if place.is_null() {
        return None;
    }
    // SAFETY: by the caller's contract.
    let bytes = unsafe { slice::from_raw_parts(place.cast::<u8>(), length as usize) };
    let (family, name) = bytes.split_first_chunk()?;
    if libc::sa_family_t::from_ne_bytes(*family) != libc::AF_UNIX as libc::sa_family_t {
        return None;
    }
    let name = match name {
        [0, ..] => name,
        path => path.split(|byte| *byte == 0).next()?,
    };
    (!name.is_empty()).then(|| name.to_vec())
}

/// Tells the world what is about to happen to a file.
///
/// # Errors
///
/// -1 if that fails, with the error number in `errno`.
pub(crate) fn prepare(tell: impl FnOnce(&dyn World) -> io::Result<()>) -> Result<(), c_int> {
    match interposition::world().map(|world| tell(&*world)) {
        None | Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(returned(Err(error)) as c_int),
    }
}

/// Syncs a file in the world. Returns `None` if the kernel has to do it.
pub(crate) fn sync(fd: c_int) -> Option<c_int> {
    let synced = interposition::world()?.sync(fd)?;
    Some(returned(synced.map(|()| 0)) as c_int)
}

fn exists() -> bool {
    interposition::world().is_some()
}

/// Returns an address of the internet.
///
/// # Safety
///
/// It is null, or has this length.
#[allow(unsafe_code, reason = "memory of the program")]
unsafe fn address(place: *const libc::sockaddr, length: libc::socklen_t) -> Option<SocketAddr> {
    let length = length as usize;
    if place.is_null() || length < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: by the caller's contract, it has a family.
    let family = unsafe { place.cast::<libc::sa_family_t>().read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: by the caller's contract.
            let v4 = unsafe { place.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: by the caller's contract.
            let v6 = unsafe { place.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn returned(result: io::Result<usize>) -> isize {
    result.map_or_else(
        |error| {
            raw::set_errno(error.raw_os_error().unwrap_or(libc::EIO));
            -1
        },
        |count| count as isize,
    )
}
