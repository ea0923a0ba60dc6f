//! What the kernel says of a socket, and calls on one that `std` and `uthread` do not have.

use std::io;
use std::mem::ManuallyDrop;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Mutex;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::{DupFlags, Errno};
use rustix::net::sockopt;
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::lock::lock;

/// Returns the address of a socket of the internet.
pub(crate) fn local(socket: impl AsFd) -> Option<SocketAddr> {
    canonical(net::getsockname(socket).ok()?.try_into().ok()?)
}

/// Returns the address of the peer of a socket of the internet.
pub(crate) fn peer(socket: impl AsFd) -> Option<SocketAddr> {
    canonical(net::getpeername(socket).ok()??.try_into().ok()?)
}

fn canonical(address: SocketAddr) -> Option<SocketAddr> {
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

pub(crate) fn is_stream(socket: impl AsFd) -> bool {
    sockopt::socket_type(socket) == Ok(SocketType::STREAM)
}

/// Returns `true` if calls on a descriptor must not wait.
pub(crate) fn is_nonblocking(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}

/// Returns this address of IPv4 in the family of a socket.
pub(crate) fn in_family(ip: Ipv4Addr, is_v6: bool) -> IpAddr {
    if is_v6 {
        IpAddr::V6(ip.to_ipv6_mapped())
    } else {
        IpAddr::V4(ip)
    }
}

/// Binds a socket that has no address. One of TCP gets its port when it connects: looking for one that is
/// free takes milliseconds, once there were some thousand connections.
#[allow(unsafe_code, reason = "an option that no crate has a function for")]
pub(crate) fn bind_if_unbound(socket: BorrowedFd<'_>, ip: Ipv4Addr) -> io::Result<()> {
    if local(socket).is_none_or(|present| !present.ip().is_unspecified()) {
        return Ok(());
    }
    if is_stream(socket) {
        let (yes, length) = (1_i32, size_of::<i32>() as libc::socklen_t);
        let (level, option) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
        let value = (&raw const yes).cast();
        // SAFETY: the value has this length. Without the option, binding takes longer.
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, length) };
    }
    let is_v6 = sockopt::socket_domain(socket)? == AddressFamily::INET6;
    Ok(net::bind(
        socket,
        &SocketAddr::new(in_family(ip, is_v6), 0),
    )?)
}

/// Sends bytes without waiting.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<usize> {
    net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
}

/// Sends a datagram without waiting.
pub(crate) fn send_to(socket: &OwnedFd, bytes: &[u8], to: SocketAddr) -> rustix::io::Result<usize> {
    let is_v6 = sockopt::socket_domain(socket)? == AddressFamily::INET6;
    let to = match to.ip() {
        IpAddr::V4(ip) => SocketAddr::new(in_family(ip, is_v6), to.port()),
        IpAddr::V6(_) => to,
    };
    net::sendto(
        socket,
        bytes,
        SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        &to,
    )
}

/// Returns the timeout of sends, if there is one.
pub(crate) fn send_timeout(socket: impl AsFd) -> Option<Duration> {
    sockopt::socket_timeout(socket, sockopt::Timeout::Send).ok()?
}

/// Returns `true` if nothing more can be sent and received.
pub(crate) fn has_ended(socket: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&socket, PollFlags::empty())];
    rustix::event::poll(&mut polled, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

/// Ends a connection at once: its peer gets `ECONNRESET`.
pub(crate) fn reset(socket: impl AsFd) {
    // It fails if the connection has ended.
    let _ = net::connect_unspec(socket);
}

/// Returns a listener whose queue is full, with its address and the connection in that.
pub(crate) fn full_listener(ip: Ipv4Addr) -> io::Result<(SocketAddr, OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = || net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
    let (listener, client) = (socket()?, socket()?);
    net::bind(&listener, &SocketAddr::new(ip.into(), 0))?;
    net::listen(&listener, 0)?;
    let address = local(&listener).ok_or(io::ErrorKind::AddrNotAvailable)?;
    match net::connect(&client, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok((address, listener, client)),
        Err(errno) => Err(errno.into()),
    }
}

/// Runs `action` while no socket is closed and no other is looked at: a look keeps a socket open, and the peer
/// would hear of its end late. `action` does not wait.
pub(crate) fn alone<R>(action: impl FnOnce() -> R) -> R {
    static LOOK: Mutex<()> = Mutex::new(());
    let _alone = lock(&LOOK);
    action()
}

/// Returns those descriptors of the process for which `is_one` returns `true`.
#[allow(unsafe_code, reason = "descriptors of others")]
pub(crate) fn select(is_one: impl Fn(BorrowedFd<'static>) -> bool) -> Vec<BorrowedFd<'static>> {
    alone(|| {
        let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let numbers = names.filter_map(|name| name.to_str()?.parse().ok());
        // SAFETY: the caller asks the kernel about them, to which one that was closed is an error.
        let all = numbers.map(|number| unsafe { BorrowedFd::borrow_raw(number) });
        all.filter(|socket| is_one(*socket)).collect()
    })
}

/// Closes a socket, whose number then names nothing.
#[allow(unsafe_code, reason = "a descriptor that nobody uses any more")]
pub(crate) fn replace(socket: BorrowedFd<'_>) {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let Ok(nothing) = rustix::fs::open("/", flags, Mode::empty()) else {
        return;
    };
    // SAFETY: its owners do not run any more. The number stays theirs.
    let mut theirs = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(socket.as_raw_fd()) });
    let _ = rustix::io::dup3(&nothing, &mut theirs, DupFlags::CLOEXEC);
}

/// Connects a blocking socket within the host, which takes microseconds. Returns `false` if it does not
/// because the queue of the listener is full.
pub(crate) fn connect_at_once(socket: BorrowedFd<'_>, to: SocketAddr) -> io::Result<bool> {
    const TIME_MAX: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    rustix::io::ioctl_fionbio(socket, true)?;
    let connected = match net::connect(socket, &to) {
        Err(Errno::INPROGRESS) => {
            let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::OUT)];
            match rustix::event::poll(&mut polled, Some(&TIME_MAX)) {
                Ok(1) => sockopt::socket_error(socket)
                    .and_then(|error| error)
                    .map(|()| true),
                Ok(_) | Err(Errno::INTR) => Ok(false),
                Err(errno) => Err(errno),
            }
        }
        result => result.map(|()| true),
    };
    rustix::io::ioctl_fionbio(socket, false)?;
    Ok(connected?)
}

/// A socket of the program, by its descriptor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    fd: RawFd,
    /// The number of the socket, which no other one has.
    inode: Option<u64>,
}

impl Named {
    pub(super) fn new(socket: BorrowedFd<'_>) -> Named {
        Named {
            fd: socket.as_raw_fd(),
            inode: inode(socket),
        }
    }

    /// Returns the socket.
    ///
    /// # Errors
    ///
    /// `EBADF` if it was closed: the number of its descriptor may be that of another one.
    pub(super) fn get<'a>(self) -> rustix::io::Result<BorrowedFd<'a>> {
        let socket = borrow(self.fd);
        if inode(socket) == self.inode {
            Ok(socket)
        } else {
            Err(Errno::BADF)
        }
    }
}

fn inode(socket: BorrowedFd<'_>) -> Option<u64> {
    Some(rustix::fs::fstat(socket).ok()?.st_ino)
}

/// Borrows a descriptor of the program.
#[allow(unsafe_code, reason = "a descriptor of the program")]
pub(crate) fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the program keeps the descriptor open during its call, and the world until what was sent by it
    // has arrived. -1 is no descriptor.
    unsafe { BorrowedFd::borrow_raw(fd.max(0)) }
}

/// Takes a descriptor that the program closes.
#[allow(unsafe_code, reason = "a descriptor of the program")]
pub(crate) fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: its owner closes it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Closes a socket at once, whoever calls this.
#[allow(
    unsafe_code,
    reason = "a call that `std` makes by the C library, and so by the world"
)]
pub(crate) fn close(socket: OwnedFd) {
    // SAFETY: nobody else owns it.
    alone(|| unsafe { rustix::io::close(socket.into_raw_fd()) });
}
