//! What the library, and functions of the C library, ask of a world instead of the kernel.

use std::ffi::CStr;
use std::io::{self, IoSlice};
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _, RawFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, FileType, OFlags, Stat};
use rustix::io::Errno;
use uthread::interposition::{self, World as _};
use uthread::sync::mpsc;

use super::clock::{of_world, own_now, own_time};
use super::disk::Disk;
use super::network::{Sent, latency};
use super::trace::Event;
use super::{
    CLOSED_ELSEWHERE, Connected, EVENTS_SHOWN, Nowhere, Shared, State, disk, now, sockets, timeline,
};
use crate::faults;

/// How long TCP tries to connect.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(127);

/// How long a caller waits before it looks again whether it can go on: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

impl interposition::World for Shared {
    fn send(
        &self,
        socket: RawFd,
        buffers: &[IoSlice<'_>],
        to: Option<SocketAddr>,
    ) -> Option<io::Result<usize>> {
        let socket = sockets::borrow(socket);
        let Some((key, pair)) = self.connected(socket) else {
            let result = self.send_datagram(socket, buffers, to);
            if result.is_none() {
                self.note_sent();
            }
            return result;
        };
        let mut state = self.state();
        if state.is_down(pair.0) || state.is_down(pair.1) {
            return Some(Ok(length(buffers)));
        }
        let bytes = |room| gather(buffers, room);
        let State { network, trace, .. } = &mut *state;
        match network.send(now(), (key, pair), socket, (bytes, trace)) {
            Sent::AtOnce => {
                self.note_sent();
                None
            }
            Sent::Taken(count) => Some(Ok(count)),
            // The kernel has the error of a socket that was shut down.
            Sent::Full if sockets::has_ended(socket) => None,
            Sent::Full => Some(Err(Errno::AGAIN.into())),
        }
    }

    fn await_room(&self, socket: RawFd, limit: Option<Duration>) -> bool {
        let socket = sockets::borrow(socket);
        let Some((key, _)) = self.connected(socket) else {
            return false;
        };
        if sockets::is_nonblocking(socket) {
            return false;
        }
        let limit = limit.or_else(|| sockets::send_timeout(socket));
        wait_until(limit, || {
            self.state().network.has_room(key) || sockets::has_ended(socket)
        })
    }

    fn connect(
        &self,
        socket: RawFd,
        to: SocketAddr,
        limit: Option<Duration>,
    ) -> io::Result<Option<SocketAddr>> {
        let Some(from) = interposition::host() else {
            self.reach_address(to)?;
            self.note_sent();
            return Ok(Some(to));
        };
        let socket = sockets::borrow(socket);
        let to = self.local(to);
        let peer = self.subnet.host(to).ok_or(Errno::NETUNREACH)?;
        sockets::bind_if_unbound(socket, self.subnet.address(from))?;
        if !sockets::is_stream(socket) {
            return Ok(Some(to));
        }
        let pairs = [(from, peer), (peer, from)];
        let is_reachable = || {
            let state = self.state();
            let is_cut = pairs
                .iter()
                .any(|pair| state.network.links.get(*pair).is_cut);
            !is_cut && !state.is_down(peer)
        };
        let event = Event::Connects((from, peer), to.port());
        self.state().trace.add(now(), event);
        if sockets::is_nonblocking(socket) {
            self.note_sent();
            let to = if is_reachable() { to } else { self.nowhere()? };
            return Ok(Some(to));
        }
        let limit = limit.unwrap_or(CONNECT_TIME_MAX);
        let begin = own_now();
        if !wait_until(Some(limit), is_reachable) {
            let is_over = own_now() - begin >= limit;
            let errno = if is_over {
                Errno::TIMEDOUT
            } else {
                Errno::CANCELED
            };
            return Err(errno.into());
        }
        let latency = {
            let mut state = self.state();
            let State { network, trace, .. } = &mut *state;
            let each = pairs.map(|pair| latency(network.links.get(pair), pair, now(), trace));
            own_time(each.into_iter().sum())
        };
        let left = limit.saturating_sub(own_now() - begin);
        if !latency.is_zero() && !sleep(latency.min(left)) {
            return Err(Errno::CANCELED.into());
        }
        if latency > left {
            return Err(Errno::TIMEDOUT.into());
        }
        self.note_sent();
        let is_connected = sockets::connect_at_once(socket, to)?;
        Ok((!is_connected).then_some(to))
    }

    fn local(&self, address: SocketAddr) -> SocketAddr {
        let Some(host) = interposition::host() else {
            return address;
        };
        let ip = address.ip();
        let is_own = |ip: IpAddr| ip.is_unspecified() || ip == IpAddr::V4(Ipv4Addr::LOCALHOST);
        if is_own(ip.to_canonical()) || ip.to_canonical().is_loopback() && ip.is_ipv6() {
            let own = self.subnet.address(host);
            return SocketAddr::new(sockets::in_family(own, ip.is_ipv6()), address.port());
        }
        address
    }

    fn write(&self, file: RawFd, offset: Option<u64>, length: usize) -> io::Result<()> {
        let file = sockets::borrow(file);
        self.change_file(file, |disk, status| {
            disk.write(file, status, offset, length)
        })
    }

    fn allocate(&self, file: RawFd, mode: u32, offset: u64, length: u64) -> io::Result<()> {
        type Mode = FallocateFlags;
        let mode = Mode::from_bits_retain(mode);
        let Ok(status) = rustix::fs::fstat(sockets::borrow(file)) else {
            return Ok(());
        };
        let size = status.st_size.cast_unsigned();
        let mut range = offset..offset.saturating_add(length);
        if mode.intersects(Mode::COLLAPSE_RANGE | Mode::INSERT_RANGE) {
            range.end = range.end.max(size);
        } else if !mode.intersects(Mode::PUNCH_HOLE | Mode::ZERO_RANGE) {
            // What is there stays.
            range.start = range.start.max(size);
        }
        if mode.contains(Mode::KEEP_SIZE) {
            range.end = range.end.min(size);
        }
        if range.is_empty() {
            return Ok(());
        }
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        self.write(file, Some(range.start), length)
    }

    fn open(&self, directory: Option<RawFd>, path: &CStr, flags: u64) -> io::Result<()> {
        self.reach_by_flags((directory, path), flags)
    }

    fn reach_unix(&self, name: &[u8]) -> io::Result<()> {
        self.reach_unix_by(name, OFlags::RDWR)
    }

    fn escape(&self, what: &str) -> io::Result<()> {
        self.leave(what, None)
    }

    fn sync(&self, file: RawFd) -> Option<io::Result<()>> {
        let types = [FileType::RegularFile, FileType::Directory];
        let (status, path) = disk::of_type(sockets::borrow(file), &types)?;
        Some(self.state().disk(&path)?.sync(&status))
    }

    fn deadline(&self, own: Instant) -> Instant {
        of_world(own)
    }

    fn take_sent(&self) -> bool {
        self.has_sent.swap(false, Ordering::Relaxed)
    }

    fn next(&self) -> Option<Duration> {
        let next = self.state().network.next();
        next.map(|due| due.saturating_sub(now()))
    }

    fn act(&self) -> bool {
        let mut state = self.state();
        let State { network, trace, .. } = &mut *state;
        let has_acted = network.act(now(), trace);
        if has_acted {
            self.note_sent();
        }
        has_acted
    }

    fn report(&self) {
        let text = {
            let mut state = self.state();
            if mem::replace(&mut state.has_reported, true) {
                return;
            }
            let summary = state
                .trace
                .summary(EVENTS_SHOWN, |number| state.name(number));
            let timeline = timeline::write_failure(&state).to_string();
            summary + &timeline + &self.escapes_text() + &faults::count_line(state.trace.faults())
        };
        // Without the lock: this may suspend the caller.
        eprintln!("the last events of the world:\n{text}");
    }
}

impl Shared {
    /// Notes that a file is about to get this size.
    ///
    /// # Errors
    ///
    /// Those of a disk that fails.
    pub(crate) fn resize(&self, file: BorrowedFd<'_>, size: u64) -> io::Result<()> {
        self.change_file(file, |disk, status| disk.resize(file, status, size))
    }

    /// Calls `note` with the disk and the status of a file that a host is about to change.
    fn change_file(
        &self,
        file: BorrowedFd<'_>,
        note: impl FnOnce(&mut Disk, &Stat) -> io::Result<()>,
    ) -> io::Result<()> {
        // What the test prepares stays.
        if interposition::host().is_none() || self.state().disks.is_empty() {
            return Ok(());
        }
        let Some((status, path)) = disk::of_type(file, &[FileType::RegularFile]) else {
            return Ok(());
        };
        match self.state().disk(&path) {
            Some(disk) => note(disk, &status),
            None => Ok(()),
        }
    }

    /// Returns the connection of a socket, if it is between two hosts.
    fn connected(&self, socket: BorrowedFd<'_>) -> Option<Connected> {
        // Otherwise the world itself closes a descriptor, which is unknown.
        let mut state = self.state.try_lock().ok()?;
        let closed = CLOSED_ELSEWHERE.load(Ordering::Relaxed);
        if state.sockets.closed_elsewhere != closed {
            state.sockets.known.clear();
            state.sockets.closed_elsewhere = closed;
        }
        let number = socket.as_raw_fd();
        if let Some(connected) = state.sockets.known.get(&number).copied() {
            // One that has been reset is the kernel's matter, whose errors the program gets.
            let is_connected = sockets::peer(socket).is_some();
            if !is_connected {
                state.sockets.known.remove(&number);
            }
            return is_connected.then_some(connected);
        }
        let connected = self.look_up(socket)?;
        state.sockets.known.insert(number, connected);
        Some(connected)
    }

    fn look_up(&self, socket: BorrowedFd<'_>) -> Option<Connected> {
        let local = sockets::local(socket)?;
        let from = self.subnet.host(local)?;
        let peer = sockets::peer(socket)?;
        let to = self.subnet.host(peer)?;
        sockets::is_stream(socket).then_some(((local, peer), (from, to)))
    }

    fn send_datagram(
        &self,
        socket: BorrowedFd<'_>,
        buffers: &[IoSlice<'_>],
        to: Option<SocketAddr>,
    ) -> Option<io::Result<usize>> {
        let mut local = sockets::local(socket)?;
        if sockets::is_stream(socket) {
            return None;
        }
        if let (None, Some(to)) = (interposition::host(), to)
            && let Err(error) = self.reach_address(to)
        {
            return Some(Err(error));
        }
        let to = self.local(to.or_else(|| sockets::peer(socket))?);
        if let Some(host) = interposition::host()
            && local.port() == 0
        {
            if let Err(error) = sockets::bind_if_unbound(socket, self.subnet.address(host)) {
                return Some(Err(error));
            }
            local = sockets::local(socket)?;
        }
        let from = self.subnet.host(local)?;
        let Some(peer) = self.subnet.host(to) else {
            return Some(Err(Errno::NETUNREACH.into()));
        };
        let mut state = self.state();
        if state.is_down(from) || state.is_down(peer) {
            return Some(Ok(length(buffers)));
        }
        let bytes = || gather(buffers, usize::MAX);
        let State { network, trace, .. } = &mut *state;
        let pair = (from, peer);
        match network.send_datagram(now(), pair, socket, (to, bytes), trace) {
            Sent::AtOnce | Sent::Full => None,
            Sent::Taken(count) => Some(Ok(count)),
        }
    }

    /// Returns the address of a listener to which a connection is never made, as its queue is full.
    fn nowhere(&self) -> io::Result<SocketAddr> {
        if let Some(nowhere) = &self.state().nowhere {
            return Ok(nowhere.address);
        }
        let ip = self.subnet.nowhere();
        let (address, listener, client) = sockets::full_listener(ip)?;
        self.state().nowhere = Some(Nowhere {
            address,
            _sockets: [listener, client],
        });
        Ok(address)
    }

    /// Lets the end of what a socket sends travel like that. Returns `false` if it is at once.
    pub(crate) fn end_stream(&self, socket: RawFd) -> bool {
        self.note_sent();
        let socket = sockets::borrow(socket);
        let Some((key, pair)) = self.connected(socket) else {
            return false;
        };
        let mut state = self.state();
        let State { network, trace, .. } = &mut *state;
        let travels = network.end(now(), (key, pair), socket, trace);
        if travels {
            trace.add(now(), Event::Ended(pair));
        }
        travels
    }

    /// Closes a socket once what it has sent has arrived. Returns `false` if that is at once.
    pub(crate) fn close(&self, socket: RawFd) -> bool {
        self.note_sent();
        let Some((key, pair)) = self.connected(sockets::borrow(socket)) else {
            return false;
        };
        let mut state = self.state();
        state.sockets.known.remove(&socket);
        let socket = sockets::own(socket);
        if state.is_down(pair.0) {
            state.keep(pair.0, socket);
            return true;
        }
        let State { network, trace, .. } = &mut *state;
        if let Some(socket) = network.close(now(), (key, pair), socket, trace) {
            // The caller closes it.
            let _ = socket.into_raw_fd();
            return false;
        }
        trace.add(now(), Event::Ended(pair));
        true
    }

    /// Closes the sockets of a host whose fibers will not do it.
    pub(super) fn take_sockets(&self, number: u32) {
        let is_own = |socket| {
            let local = sockets::local(socket);
            local.and_then(|local| self.subnet.host(local)) == Some(number)
        };
        for socket in sockets::select(is_own) {
            if sockets::peer(socket).is_some()
                && let Ok(left) = rustix::io::fcntl_dupfd_cloexec(socket, 0)
            {
                self.state().keep(number, left);
            }
            self.state().sockets.known.remove(&socket.as_raw_fd());
            sockets::replace(socket);
        }
        self.note_sent();
    }
}

/// Waits until `is_so` returns `true`. Returns `false` after `limit` by the clock of the caller's host, or if the
/// caller is cancelled.
fn wait_until(limit: Option<Duration>, is_so: impl Fn() -> bool) -> bool {
    let begin = own_now();
    let (mut pause, longest) = PAUSES;
    while !is_so() {
        let left = limit.map_or(longest, |limit| limit.saturating_sub(own_now() - begin));
        if left.is_zero() || !sleep(pause.min(left)) {
            return false;
        }
        pause = (2 * pause).min(longest);
    }
    true
}

/// Waits for this time of the world, like [`sleep`].
pub(super) fn pass(time: Duration) -> bool {
    sleep(own_time(time))
}

/// Waits for this time by the clock of the caller's host. Returns `false` if the caller is cancelled, which
/// `uthread::sleep` would unwind.
fn sleep(time: Duration) -> bool {
    let (_sender, receiver) = mpsc::sync_channel::<()>(1);
    let _ = receiver.recv_timeout(time);
    !uthread::thread::is_cancelled()
}

fn length(buffers: &[IoSlice<'_>]) -> usize {
    buffers.iter().map(|buffer| buffer.len()).sum()
}

/// Copies at most so many bytes.
fn gather(buffers: &[IoSlice<'_>], bytes_max: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length(buffers).min(bytes_max));
    for buffer in buffers {
        let room = bytes_max - bytes.len();
        bytes.extend_from_slice(&buffer[..buffer.len().min(room)]);
    }
    bytes
}
