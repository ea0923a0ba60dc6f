//! Waits for events of several descriptors: `poll(2)` and `select(2)`, without and with a mask of
//! signals.

use std::ffi::{c_int, c_short, c_ulong};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::slice;
use std::time::{Duration, Instant};

use uthread::ring::Events;

use crate::blocking::blocking;
use crate::deadline;
use crate::descriptor::wait;
use crate::errno::{outcome, returned};
use crate::record;

/// What a thread waits for.
pub(crate) enum Wanted {
    /// These events of one descriptor.
    One(RawFd, Events),
    /// An event of one of the descriptors in an epoll instance.
    Several(Several),
}

impl Wanted {
    fn new(wanted: &[libc::pollfd]) -> io::Result<Wanted> {
        match wanted {
            [one] if one.fd >= 0 && one.events & !EVENTS == 0 => {
                Ok(Wanted::One(one.fd, events_of(one.events)))
            }
            _ => Several::new(wanted).map(Wanted::Several),
        }
    }

    /// Waits; returns `false` if there is no event at the deadline.
    fn wait(&self, deadline: Option<Instant>) -> io::Result<bool> {
        match self {
            Wanted::One(fd, events) => wait(*fd, *events, deadline),
            Wanted::Several(several) => wait(several.0.as_raw_fd(), Events::READABLE, deadline),
        }
    }
}

/// The events that `events_of` takes.
const EVENTS: c_short = libc::POLLIN | libc::POLLOUT | libc::POLLPRI | libc::POLLRDHUP;

fn events_of(bits: c_short) -> Events {
    let all = [
        Events::READABLE,
        Events::WRITABLE,
        Events::PRIORITY,
        Events::READ_CLOSED,
    ];
    let named = all
        .into_iter()
        .filter(|event| bits.cast_unsigned() & event.bits() != 0);
    // Asked for or not, these are reported.
    named.fold(Events::HANG_UP | Events::ERROR, |all, event| all | event)
}

/// An epoll instance, in which a thread waits for several descriptors.
pub(crate) struct Several(OwnedFd);

impl Several {
    /// Returns an instance for these descriptors.
    #[allow(unsafe_code, reason = "system calls that std has no function for")]
    fn new(wanted: &[libc::pollfd]) -> io::Result<Several> {
        // SAFETY: the call takes no memory.
        let epoll = outcome(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: nothing else has the new descriptor.
        let several = Several(unsafe { OwnedFd::from_raw_fd(epoll) });
        for one in wanted.iter().filter(|one| one.fd >= 0) {
            let added = several.control(libc::EPOLL_CTL_ADD, one.fd, one.events);
            match added.as_ref().map_err(io::Error::raw_os_error) {
                // It is there twice.
                Err(Some(libc::EEXIST)) => {
                    let same = wanted.iter().filter(|other| other.fd == one.fd);
                    let events = same.fold(0, |all, other| all | other.events);
                    several.control(libc::EPOLL_CTL_MOD, one.fd, events)?;
                }
                // It is always ready, and nothing is wanted of it: `poll` would have found it.
                Err(Some(libc::EPERM)) => {}
                _ => added?,
            }
        }
        Ok(several)
    }

    #[allow(unsafe_code, reason = "a system call that std has no function for")]
    fn control(&self, operation: c_int, fd: RawFd, events: c_short) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: u32::from(events.cast_unsigned()),
            u64: 0,
        };
        let epoll = self.0.as_raw_fd();
        // SAFETY: the event lives until the call has returned.
        outcome(unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) }).map(drop)
    }
}

/// Waits for events of descriptors: `poll(2)`. A cancellation point.
///
/// # Safety
///
/// `descriptors` points to `count` of them.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_poll(
    descriptors: *mut libc::pollfd,
    count: c_ulong,
    milliseconds: c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    returned(unsafe { poll(descriptors, count, milliseconds_of(milliseconds)) })
}

/// Waits for events of descriptors: `ppoll(2)`. A cancellation point. With a mask of signals, the call
/// blocks the thread of the fiber, and is no cancellation point while it waits.
///
/// # Safety
///
/// `descriptors` points to `count` of them, and the time and the mask are null or initialized.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_ppoll(
    descriptors: *mut libc::pollfd,
    count: c_ulong,
    time: *const libc::timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    if !mask.is_null() {
        // SAFETY: the caller's contract.
        return returned(blocking("ppoll", || unsafe {
            libc::ppoll(descriptors, count, time, mask)
        }));
    }
    // SAFETY: the caller's contract.
    let limit = unsafe { time.as_ref() }.map(time_of).transpose();
    // SAFETY: the caller's contract.
    returned(limit.and_then(|limit| unsafe { poll(descriptors, count, limit) }))
}

/// # Safety
///
/// As for `uthread_poll`.
#[allow(unsafe_code, reason = "descriptors of the program")]
unsafe fn poll(
    descriptors: *mut libc::pollfd,
    count: c_ulong,
    limit: Option<Duration>,
) -> io::Result<c_int> {
    // SAFETY: the caller's contract.
    let now = || outcome(unsafe { libc::poll(descriptors, count, 0) });
    let wanted = || match count {
        0 => Wanted::new(&[]),
        // SAFETY: the caller's contract.
        _ => Wanted::new(unsafe { slice::from_raw_parts(descriptors, count as usize) }),
    };
    await_some(now, wanted, limit)
}

/// Returns a limit of `poll` or `epoll_wait`, where a negative number is none.
pub(crate) fn milliseconds_of(limit: c_int) -> Option<Duration> {
    u64::try_from(limit).ok().map(Duration::from_millis)
}

/// Returns a limit of `ppoll` or `pselect`.
///
/// # Errors
///
/// `InvalidInput` for a negative one, or if the nanoseconds are not those of a second.
fn time_of(limit: &libc::timespec) -> io::Result<Duration> {
    if limit.tv_sec < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    deadline::duration(limit)
}

/// Repeats `now`, which looks without waiting, until something is ready or the time is over.
/// Meanwhile it waits for what `wanted` returns.
pub(crate) fn await_some(
    now: impl Fn() -> io::Result<c_int>,
    wanted: impl Fn() -> io::Result<Wanted>,
    limit: Option<Duration>,
) -> io::Result<c_int> {
    record::point(|| {
        let ready = now()?;
        if ready > 0 || limit.is_some_and(|limit| limit.is_zero()) {
            // The caller may look in a loop.
            record::let_others_run();
            return Ok(ready);
        }
        let deadline = limit.and_then(deadline::after);
        let wanted = wanted()?;
        loop {
            let is_over = !wanted.wait(deadline)?;
            let ready = now()?;
            if ready > 0 || is_over {
                return Ok(ready);
            }
        }
    })
}

/// A set of descriptors as `select` takes it, which is null or initialized.
#[derive(Clone, Copy)]
struct Set(*mut libc::fd_set);

#[allow(unsafe_code, reason = "sets of the program")]
impl Set {
    /// Returns what the set contains, or nothing if there is no set.
    fn contents(self) -> Option<libc::fd_set> {
        // SAFETY: null or initialized, by the contract of `uthread_select`.
        unsafe { self.0.as_ref() }.copied()
    }

    /// Changes the contents, if there is a set.
    fn fill(self, contents: Option<libc::fd_set>) {
        if let Some(contents) = contents {
            // SAFETY: a set that had contents is there.
            unsafe { self.0.write(contents) };
        }
    }
}

/// Looks for events without waiting, and stores them in the sets.
#[allow(unsafe_code, reason = "a system call that std has no function for")]
fn look(count: c_int, sets: [Set; 3], wanted: [Option<libc::fd_set>; 3]) -> io::Result<c_int> {
    let mut now = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    for (set, wanted) in sets.iter().zip(wanted) {
        set.fill(wanted);
    }
    let [read, write, except] = sets.map(|set| set.0);
    // SAFETY: the sets are null or initialized, and the time lives until the call has returned.
    outcome(unsafe { libc::select(count, read, write, except, &raw mut now) })
}

/// Returns the descriptors of the sets as `poll` takes them.
#[allow(unsafe_code, reason = "a macro of C on initialized sets")]
fn descriptors(count: c_int, wanted: [Option<libc::fd_set>; 3]) -> Vec<libc::pollfd> {
    let events = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
    let of = |fd| {
        let has = |set: &libc::fd_set| {
            // SAFETY: `select` has accepted the number.
            unsafe { libc::FD_ISSET(fd, set) }
        };
        let wanted = wanted.iter().zip(events);
        let wanted = wanted.filter(|(set, _)| set.as_ref().is_some_and(has));
        wanted.fold(0, |all, (_, event)| all | event)
    };
    (0..count)
        .map(|fd| libc::pollfd {
            fd,
            events: of(fd),
            revents: 0,
        })
        .filter(|one| one.events != 0)
        .collect()
}

/// Waits for events of descriptors: `select(2)`. A cancellation point. The time is not changed.
///
/// # Safety
///
/// The sets and the time are null or initialized.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_select(
    count: c_int,
    read: *mut libc::fd_set,
    write: *mut libc::fd_set,
    except: *mut libc::fd_set,
    time: *mut libc::timeval,
) -> c_int {
    // SAFETY: the caller's contract.
    let limit = unsafe { time.as_ref() }.map(limit).transpose();
    returned(limit.and_then(|limit| select(count, [read, write, except], limit)))
}

/// Waits for events of descriptors: `pselect(2)`. A cancellation point. With a mask of signals, the
/// call blocks the thread of the fiber, and is no cancellation point while it waits.
///
/// # Safety
///
/// The sets, the time and the mask are null or initialized.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_pselect(
    count: c_int,
    read: *mut libc::fd_set,
    write: *mut libc::fd_set,
    except: *mut libc::fd_set,
    time: *const libc::timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    if !mask.is_null() {
        // SAFETY: the caller's contract.
        return returned(blocking("pselect", || unsafe {
            libc::pselect(count, read, write, except, time, mask)
        }));
    }
    // SAFETY: the caller's contract.
    let limit = unsafe { time.as_ref() }.map(time_of).transpose();
    returned(limit.and_then(|limit| select(count, [read, write, except], limit)))
}

/// Waits for events of the descriptors of these sets, which are null or initialized.
fn select(
    count: c_int,
    sets: [*mut libc::fd_set; 3],
    limit: Option<Duration>,
) -> io::Result<c_int> {
    let sets = sets.map(Set);
    let wanted = sets.map(Set::contents);
    await_some(
        || look(count, sets, wanted),
        || Wanted::new(&descriptors(count, wanted)),
        limit,
    )
}

/// Returns a time of C.
///
/// # Errors
///
/// `InvalidInput` for a negative one.
fn limit(time: &libc::timeval) -> io::Result<Duration> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let seconds = u64::try_from(time.tv_sec).map_err(invalid)?;
    let microseconds = u64::try_from(time.tv_usec).map_err(invalid)?;
    Ok(Duration::from_secs(seconds) + Duration::from_micros(microseconds))
}
