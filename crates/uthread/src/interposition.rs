//! What `uthread-interpose` and `uthread-simulation` need, which take the place of functions of the C
//! library in a program with fibers. Not for others.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::atomic;
use crate::clock::{self, VirtualClock};
use crate::fiber::host;
use crate::forked;
use crate::runtime::Builder;
use crate::sched::caller::{self, turn};
use crate::sched::features::virtual_time;
use crate::sched::worker::current;
use crate::stack::overflow;
use crate::sync::futex;

pub use crate::world::World;

/// Returns `true` if a call of the C library may suspend the caller instead of its thread: it is a
/// fiber on a worker, with thread-local storage of its own, and runs code that is not this library's.
///
/// ```
/// use uthread::Runtime;
/// use uthread::interposition::may_suspend;
///
/// assert!(!may_suspend());
/// let runtime = Runtime::new()?;
/// assert_eq!(runtime.run(may_suspend), !runtime.is_lean());
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn may_suspend() -> bool {
    current::runs_foreign_code() && !atomic::is_locking()
}

/// Wakes waiters like [`futex::wake`](crate::sync::futex::wake()). Never suspends the caller, which
/// may be this library.
///
/// ```
/// use std::sync::atomic::AtomicU32;
///
/// assert_eq!(uthread::interposition::wake(&AtomicU32::new(0), 1), 0); // Nobody waits.
/// ```
pub fn wake(word: &AtomicU32, count: usize) -> usize {
    futex::wake_in_turn(word, count)
}

/// Makes the time of a runtime virtual. It has one worker. The program has to ask [`time`] and
/// [`random`] wherever it asks the C library. With a seed, that decides which fiber runs next, the date,
/// and the random numbers. The worker's thread calls `begin` first: then, [`time`] is that at which time begins.
///
/// ```
/// let builder = uthread::Runtime::builder();
/// let builder = uthread::interposition::virtual_time(builder, Some(1), || {});
/// assert!(builder.workers(2).build().is_err());
/// ```
#[must_use]
pub fn virtual_time(builder: Builder, seed: Option<u64>, begin: fn()) -> Builder {
    builder.virtual_time(seed, begin)
}

/// Lets a function handle `SIGSEGV` and `SIGBUS`, with the arguments of their handlers, before the library looks for
/// the fiber whose stack has overflowed. It returns `true` if the program can go on. The first function stays.
///
/// ```
/// uthread::interposition::on_fault(|_, _| false);
/// ```
pub fn on_fault(handle: fn(*const libc::siginfo_t, *mut libc::c_void) -> bool) {
    overflow::on_fault(handle);
}

/// Returns the next random number of the caller's runtime, if that has virtual time by a seed.
///
/// ```
/// assert_eq!(uthread::interposition::random(), None);
/// ```
#[must_use]
pub fn random() -> Option<u64> {
    current::with_virtual_clock(VirtualClock::random)
}

/// Returns `true` if what the caller creates as a thread is to be a fiber: it may be suspended, and its
/// runtime has virtual time.
///
/// ```
/// assert!(!uthread::interposition::has_virtual_time());
/// ```
#[must_use]
pub fn has_virtual_time() -> bool {
    may_suspend() && !forked::is_spawning() && time(libc::CLOCK_MONOTONIC).is_some()
}

/// Returns `true` while the library starts a thread for itself.
///
/// ```
/// assert!(!uthread::interposition::is_spawning());
/// ```
#[must_use]
pub fn is_spawning() -> bool {
    forked::is_spawning()
}

/// Returns the time by a clock of `clock_gettime(2)`, since its epoch, if the caller is a fiber of a
/// runtime with virtual time, or its worker. Returns `None` for the clocks of CPU time.
///
/// ```
/// assert_eq!(uthread::interposition::time(0), None);
/// ```
#[must_use]
pub fn time(clock: i32) -> Option<Duration> {
    let time = current::with_virtual_clock(|virtual_clock| virtual_clock.time(clock));
    time.or_else(|| clock::beginning(clock))
}

/// Notes that the program has read a clock, of which [`time`] has returned the time. After 100,000 times without another one,
/// each read takes a microsecond: a program may wait for a time in a loop.
///
/// ```
/// uthread::interposition::note_read(); // Without virtual time, nothing happens.
/// ```
pub fn note_read() {
    current::with_virtual_clock(|clock| {
        clock.note_read();
        Some(())
    });
}

/// Returns the next value of the time-stamp counter, which has this value by the time. It exceeds the last one by a
/// random number of ticks at least.
///
/// ```
/// assert_eq!(uthread::interposition::count(1000), None);
/// ```
#[must_use]
pub fn count(value: u64) -> Option<u64> {
    current::with_virtual_clock(|clock| Some(clock.count(value)))
}

/// Makes this the world of the caller's runtime, which has virtual time.
///
/// # Errors
///
/// `Unsupported` if the caller has no virtual time, and `AlreadyExists` if its runtime has a world.
///
/// ```
/// use std::ffi::CStr;
/// use std::io::{self, IoSlice};
/// use std::net::SocketAddr;
/// use std::time::Duration;
/// use uthread::interposition::{self, World};
///
/// struct Empty;
///
/// impl World for Empty {
///     fn send(&self, _: i32, _: &[IoSlice<'_>], _: Option<SocketAddr>) -> Option<io::Result<usize>> {
///         None
///     }
///     fn await_room(&self, _: i32, _: Option<Duration>) -> bool {
///         false
///     }
///     fn connect(
///         &self,
///         _: i32,
///         to: SocketAddr,
///         _: Option<Duration>,
///     ) -> io::Result<Option<SocketAddr>> {
///         Ok(Some(to))
///     }
///     fn local(&self, address: SocketAddr) -> SocketAddr {
///         address
///     }
///     fn write(&self, _: i32, _: Option<u64>, _: usize) -> io::Result<()> {
///         Ok(())
///     }
///     fn open(&self, _: Option<i32>, _: &CStr, _: u64) -> io::Result<()> {
///         Ok(())
///     }
///     fn escape(&self, _: &str) -> io::Result<()> {
///         Ok(())
///     }
///     fn sync(&self, _: i32) -> Option<io::Result<()>> {
///         None
///     }
///     fn take_sent(&self) -> bool {
///         false
///     }
///     fn next(&self) -> Option<Duration> {
///         None
///     }
///     fn act(&self) -> bool {
///         false
///     }
///     fn report(&self) {}
/// }
///
/// let enter = || interposition::enter(std::sync::Arc::new(Empty));
/// assert!(enter().is_err());
/// let builder = interposition::virtual_time(uthread::Runtime::builder(), None, || {});
/// builder.build()?.run(enter)
/// # ; Ok::<(), io::Error>(())
/// ```
pub fn enter(world: Arc<dyn World>) -> io::Result<()> {
    match virtual_time::enter(&world) {
        Some(true) => Ok(()),
        Some(false) => Err(io::ErrorKind::AlreadyExists.into()),
        None => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Returns the world of the caller's runtime, if it has one.
///
/// ```
/// assert!(uthread::interposition::world().is_none());
/// ```
#[must_use]
pub fn world() -> Option<Arc<dyn World>> {
    caller::world()
}

/// The fibers of a computer in a simulated world. A fiber belongs to the host of the one that has spawned
/// it.
///
/// ```
/// use uthread::interposition::{Host, host};
///
/// assert_eq!(host(), None);
/// let host = Host::new(1);
/// assert!(host.is_empty());
/// host.cancel(); // Nobody.
/// ```
#[derive(Clone)]
pub struct Host(Arc<host::Host>);

impl Host {
    /// Creates a host without fibers. See the example of [`Host`].
    #[must_use]
    pub fn new(number: u32) -> Host {
        Host(Arc::new(host::Host::new(number)))
    }

    /// Makes it that of the calling fiber, in a runtime with a world, and of the fibers that this spawns from
    /// now on.
    ///
    /// # Panics
    ///
    /// Panics if the caller's runtime has no world.
    ///
    /// ```should_panic
    /// uthread::interposition::Host::new(1).enter();
    /// ```
    pub fn enter(&self) {
        let running = current::running().filter(|_| world().is_some());
        let fiber = running.expect("a fiber in a world calls this");
        self.0.admit(&fiber.reference());
        if self.is_paused() {
            turn::pass();
        }
    }

    /// Cancels its fibers. See the example of [`Host`].
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Lets its fibers ask their world for each [deadline](World::deadline) from now on, as their clock is not
    /// that of the timers. `change` is called with the time until each of their timers expires, and returns the new
    /// one. The caller is on their worker.
    ///
    /// ```
    /// uthread::interposition::Host::new(1).drift(|left| left / 2); // Nobody.
    /// ```
    pub fn drift(&self, change: impl Fn(Duration) -> Duration) {
        self.0.set_drifts();
        virtual_time::change_timers(&self.0, change);
    }

    /// Pauses its fibers, as `SIGSTOP` does: one that becomes ready is not resumed before the host is. Others
    /// go on, and so does the caller until it suspends.
    ///
    /// ```
    /// let host = uthread::interposition::Host::new(1);
    /// host.pause();
    /// assert!(host.is_paused());
    /// host.resume();
    /// assert!(!host.is_paused());
    /// ```
    pub fn pause(&self) {
        self.0.set_paused(true);
    }

    /// Ends a [`pause`](Host::pause), whose example shows it. The caller is on the worker of the fibers.
    pub fn resume(&self) {
        self.0.set_paused(false);
        virtual_time::release_held();
    }

    /// Returns `true` while its fibers are paused. See the example of [`pause`](Host::pause).
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.0.is_paused()
    }

    /// Stops its fibers where they are, as the end of a process does: none is resumed, and what they hold is
    /// leaked.
    ///
    /// ```
    /// uthread::interposition::Host::new(1).halt();
    /// ```
    pub fn halt(&self) {
        self.0.halt();
    }

    /// Returns `true` if all of its fibers have ended, or are halted. See the example of [`Host`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the number of the calling fiber's host. See the example of [`Host`].
#[must_use]
pub fn host() -> Option<u32> {
    if !crate::world::exists() {
        return None;
    }
    let host = current::running().and_then(|fiber| host::of(fiber.control()));
    host.map(|host| host.number())
}
