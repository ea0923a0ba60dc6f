//! Calls of fibers in a simulated world (`uthread-simulation`), which takes the place of the kernel where
//! it wants to.

use std::ffi::{c_int, c_void};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::{mem, slice};

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
    // SAFETY: by the caller's contract.
    let to = unsafe { address(message.msg_name.cast(), message.msg_namelen) };
    // SAFETY: by the caller's contract.
    unsafe { send_several(fd, message.msg_iov, message.msg_iovlen, to) }
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
) -> Result<Option<libc::sockaddr_in>, c_int> {
    let Some(world) = interposition::world() else {
        return Ok(None);
    };
    // SAFETY: by the caller's contract.
    let Some(to) = (unsafe { address(to, length) }) else {
        return Ok(None);
    };
    match world.connect(fd, to, None) {
        Ok(None) => Err(0),
        Ok(Some(SocketAddr::V4(to))) => Ok(Some(libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: to.port().to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from(*to.ip()).to_be(),
            },
            sin_zero: [0; 8],
        })),
        Ok(Some(SocketAddr::V6(_))) => Ok(None),
        Err(error) => Err(returned(Err(error)) as c_int),
    }
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

/// Returns an address of IPv4.
///
/// # Safety
///
/// It is null, or has this length.
#[allow(unsafe_code, reason = "memory of the program")]
unsafe fn address(place: *const libc::sockaddr, length: libc::socklen_t) -> Option<SocketAddr> {
    if place.is_null() || (length as usize) < mem::size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: by the caller's contract.
    let address = unsafe { place.cast::<libc::sockaddr_in>().read_unaligned() };
    if c_int::from(address.sin_family) != libc::AF_INET {
        return None;
    }
    let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
    Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
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
