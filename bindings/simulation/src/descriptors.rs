//! The functions of the C library that bind a socket, end a stream and look up a name, in a world.

use std::ffi::{CStr, c_char, c_int};
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::net::sockopt;
use uthread::interposition::{self, World as _};
use uthread_interpose::{system_call, unix_name};

use crate::files::refuse;
use crate::real::real;
use crate::world::{Shared, alone, borrow, note_close, resolve};

/// Does what `socket(2)` does. A socket of TCP does not wait for acknowledgements, by Nagle's algorithm: the
/// kernel may delay them, in real time. Those that it accepts inherit that.
///
/// # Safety
///
/// As for that function.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let arguments = [domain, kind, protocol].map(|argument| argument as usize);
    // SAFETY: the contract of the call is the caller's.
    let socket = (unsafe { system_call(libc::SYS_socket, arguments) }) as c_int;
    if socket >= 0 && interposition::time(libc::CLOCK_MONOTONIC).is_some() {
        // It fails for other sockets than those of TCP.
        let _ = sockopt::set_tcp_nodelay(borrow(socket), true);
    }
    socket
}

/// Does what `bind(2)` does.
///
/// # Safety
///
/// As for that function.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn bind(
    socket: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> c_int {
    let call = |address: *const libc::sockaddr| {
        // SAFETY: the contract of the call is the caller's.
        (unsafe {
            system_call(
                libc::SYS_bind,
                [socket as usize, address.addr(), length as usize],
            )
        }) as c_int
    };
    let Some(world) = Shared::current().filter(|_| !address.is_null()) else {
        return call(address);
    };
    // SAFETY: by the caller's contract, the address has a family.
    let family = unsafe { (*address).sa_family };
    if c_int::from(family) == libc::AF_INET && length as usize >= size_of::<libc::sockaddr_in>() {
        // SAFETY: by the caller's contract.
        let mut v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
        let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
        if let SocketAddr::V4(own) = world.local((ip, u16::from_be(v4.sin_port)).into()) {
            v4.sin_addr.s_addr = u32::from(*own.ip()).to_be();
        }
        return call((&raw const v4).cast());
    }
    if c_int::from(family) == libc::AF_INET6 && length as usize >= size_of::<libc::sockaddr_in6>() {
        // SAFETY: by the caller's contract.
        let mut v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
        let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
        if let SocketAddr::V6(own) = world.local((ip, u16::from_be(v6.sin6_port)).into()) {
            v6.sin6_addr.s6_addr = own.ip().octets();
        }
        return call((&raw const v6).cast());
    }
    // SAFETY: by the caller's contract.
    if let Some(name) = unsafe { unix_name(address, length) }
        && let Err(error) = world.reach_unix_by(&name, OFlags::CREATE | OFlags::RDWR)
    {
        return refuse(&error);
    }
    call(address)
}

/// Does what `close(2)` does.
///
/// # Safety
///
/// As for that function.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    // SAFETY: the contract of the call is the caller's.
    let call = || (unsafe { system_call(libc::SYS_close, [fd as usize]) }) as c_int;
    match Shared::current() {
        Some(world) if world.close(fd) => 0,
        Some(_) => alone(call),
        None => {
            note_close();
            call()
        }
    }
}

/// Does what `shutdown(2)` does.
///
/// # Safety
///
/// As for that function.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let ends = [libc::SHUT_WR, libc::SHUT_RDWR].contains(&how);
    let travels = ends && Shared::current().is_some_and(|world| world.end_stream(fd));
    let how = match how {
        libc::SHUT_WR if travels => return 0,
        libc::SHUT_RDWR if travels => libc::SHUT_RD,
        how => how,
    };
    // SAFETY: the contract of the call is the caller's.
    (unsafe { system_call(libc::SYS_shutdown, [fd as usize, how as usize]) }) as c_int
}

/// Does what `getaddrinfo(3)` does.
///
/// # Safety
///
/// As for that function.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    name: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    result: *mut *mut libc::addrinfo,
) -> c_int {
    type Call = unsafe extern "C" fn(
        *const c_char,
        *const c_char,
        *const libc::addrinfo,
        *mut *mut libc::addrinfo,
    ) -> c_int;
    // SAFETY: this is the type of the function.
    let call = unsafe { mem::transmute::<*mut std::ffi::c_void, Call>(real(c"getaddrinfo")) };
    let text = if name.is_null() {
        None
    } else {
        // SAFETY: by the caller's contract, it is a string.
        unsafe { CStr::from_ptr(name) }.to_str().ok()
    };
    match text.and_then(resolve) {
        None => {
            if text.is_some_and(is_looked_up_outside) {
                return libc::EAI_FAIL;
            }
            // SAFETY: the contract of the call is the caller's.
            unsafe { call(name, service, hints, result) }
        }
        Some(Err(code)) => code,
        Some(Ok(address)) => {
            let mut text = address.to_string();
            text.push('\0');
            // SAFETY: as above, with an address instead of the name.
            unsafe { call(text.as_ptr().cast(), service, hints, result) }
        }
    }
}

/// Tells the world of the caller of a name that is not one of its hosts. Returns `true` if that denies it.
fn is_looked_up_outside(name: &str) -> bool {
    if name == "localhost" || name.parse::<IpAddr>().is_ok() {
        return false;
    }
    let kind = "looks up a name outside of the world,";
    Shared::current().is_some_and(|world| world.leave(kind, Some(Path::new(name))).is_err())
}
