//! What a simulated world does instead of the kernel.

use std::any::Any;
use std::ffi::CStr;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::SocketAddrUnix;

/// `true` once there was a world. Relaxed: its fibers run later on the thread that has set it.
static EXISTS: AtomicBool = AtomicBool::new(false);

/// Returns `true` once some runtime has had a world.
#[inline]
pub(crate) fn exists() -> bool {
    EXISTS.load(Ordering::Relaxed)
}

/// Records that a runtime has a world.
pub(crate) fn begin() {
    EXISTS.store(true, Ordering::Relaxed);
}

/// Tells a world that a Unix socket with this address is about to be used.
///
/// # Errors
///
/// Those of [`World::reach_unix`].
pub(crate) fn tell_unix(world: &dyn World, address: &SocketAddrUnix) -> io::Result<()> {
    match (address.path_bytes(), address.abstract_name()) {
        (Some(path), _) => world.reach_unix(path),
        (None, Some(name)) => world.reach_unix(&[&[0], name].concat()),
        (None, None) => Ok(()),
    }
}

/// A network and disks between the fibers of a runtime with virtual time. See the example of
/// [`enter`](crate::interposition::enter).
#[doc(hidden)]
pub trait World: Any + Send + Sync {
    /// Sends bytes to the peer of a socket, or to this address. Returns `None` if the kernel has to do it,
    /// and `WouldBlock` if they have to wait for others.
    fn send(
        &self,
        socket: RawFd,
        buffers: &[IoSlice<'_>],
        to: Option<SocketAddr>,
    ) -> Option<io::Result<usize>>;

    /// Waits until a send on this socket need not wait any more that had to, or fails, at most for `limit`
    /// and the timeout that the kernel knows. Returns `false` if it has waited for so long, or none has to.
    fn await_room(&self, socket: RawFd, limit: Option<Duration>) -> bool;

    /// Connects a socket to an address, which may take time, at most `limit`. Returns the address to connect
    /// to if that is left to the caller.
    ///
    /// # Errors
    ///
    /// `TimedOut` if the address cannot be reached.
    fn connect(
        &self,
        socket: RawFd,
        to: SocketAddr,
        limit: Option<Duration>,
    ) -> io::Result<Option<SocketAddr>>;

    /// Returns the address of the caller's host that stands for this one.
    fn local(&self, address: SocketAddr) -> SocketAddr;

    /// Notes that so many bytes are about to be written to a file, at its position if there is no offset.
    ///
    /// # Errors
    ///
    /// Those of a disk that fails.
    fn write(&self, file: RawFd, offset: Option<u64>, length: usize) -> io::Result<()>;

    /// Notes that `fallocate(2)` is about to change a range of a file in this mode.
    ///
    /// # Errors
    ///
    /// Those of a disk that fails.
    fn allocate(&self, file: RawFd, mode: u32, offset: u64, length: u64) -> io::Result<()> {
        let _ = (file, mode, offset, length);
        Ok(())
    }

    /// Notes that a file is about to be opened with these flags of `open(2)`. A relative path starts at this
    /// directory, or at the working directory.
    ///
    /// # Errors
    ///
    /// `EPERM` if the file is outside of the world, and that is denied.
    fn open(&self, directory: Option<RawFd>, path: &CStr, flags: u64) -> io::Result<()>;

    /// Notes that a Unix socket with this name is about to be used: a path, or an abstract name, which begins with
    /// a zero byte (`unix(7)`).
    ///
    /// # Errors
    ///
    /// `EPERM` if it is outside of the world, and that is denied.
    fn reach_unix(&self, name: &[u8]) -> io::Result<()> {
        let _ = name;
        Ok(())
    }

    /// Notes what the caller is about to do outside of the world, which nothing in that decides.
    ///
    /// # Errors
    ///
    /// `EPERM` if that is denied.
    fn escape(&self, what: &str) -> io::Result<()>;

    /// Syncs a file. Returns `None` if the kernel has to do it.
    fn sync(&self, file: RawFd) -> Option<io::Result<()>>;

    /// Returns the time by the clock of the timers at which the clock of the caller's host shows this one.
    fn deadline(&self, own: Instant) -> Instant {
        own
    }

    /// Returns `true` if something was sent by the kernel since the last call of this.
    fn take_sent(&self) -> bool;

    /// Returns the time until the next event.
    fn next(&self) -> Option<Duration>;

    /// Does what is due. Returns `true` if there was anything.
    fn act(&self) -> bool;

    /// Writes what has happened last to the standard error, as the test has failed.
    fn report(&self);
}
