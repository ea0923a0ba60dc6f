//! An open descriptor, with what drivers remember of it.

use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use super::registration::Registration;

/// What an operation is on.
#[derive(Clone, Copy)]
pub(crate) struct Descriptor<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) state: &'a FdState,
}

#[cfg(test)]
impl<'a> Descriptor<'a> {
    /// One for drivers that watch none.
    pub(crate) fn unwatched(fd: BorrowedFd<'a>) -> Descriptor<'a> {
        static FD_STATE: FdState = FdState::new();
        Descriptor {
            fd,
            state: &FD_STATE,
        }
    }
}

#[cfg(test)]
impl FdState {
    /// For a descriptor that is taken for one of TCP, whatever it is.
    pub(crate) fn of_tcp() -> FdState {
        let state = FdState::new();
        assert!(state.drains(|| true));
        state
    }
}

/// What drivers remember of a descriptor. Resource beside it, by whoever owns it: its number may come to mean another file,
/// and no driver hears of that.
#[derive(Debug)]
pub(crate) struct FdState {
    /// Which driver watches it for readiness. Relaxed throughout: a driver acts only on its own number, which it wrote
    /// itself.
    driver: AtomicU32,
    /// The ring that keeps the file, and the slot there. Set by whoever has the descriptor alone, so no
    /// operation on it is under way.
    slot: Option<(NonZeroU32, u16)>,
    /// Whether the file was opened to go past the page cache. Set as `slot`.
    is_direct: bool,
    /// Whether its device has refused to be polled for completions. Relaxed: it is tried once more or less.
    refuses_polling: AtomicBool,
    /// Receives so far, counted up to those of a connection that lasts. Relaxed: one more or less.
    receives: AtomicU8,
    /// Whether a receive of fewer bytes than asked for leaves none behind. Relaxed: who does not see it asks again.
    drains: AtomicU8,
    /// The poll that stands for it in a ring.
    poll: OnceLock<Registration>,
}

impl FdState {
    const NOBODY: u32 = 0;
    const IMPOSSIBLE: u32 = u32::MAX;

    const UNKNOWN: u8 = 0;
    const DRAINS: u8 = 1;
    const LEAVES: u8 = 2;

    /// For a descriptor that no driver has met.
    pub(crate) const fn new() -> FdState {
        FdState {
            driver: AtomicU32::new(Self::NOBODY),
            slot: None,
            is_direct: false,
            refuses_polling: AtomicBool::new(false),
            receives: AtomicU8::new(0),
            drains: AtomicU8::new(Self::UNKNOWN),
            poll: OnceLock::new(),
        }
    }

    /// Where the ring of this number keeps the file.
    pub(crate) fn slot_in(&self, ring: NonZeroU32) -> Option<u16> {
        let (kept_by, slot) = self.slot?;
        (kept_by == ring).then_some(slot)
    }

    /// Remembers which ring keeps the file and where, or that none does.
    pub(crate) fn set_slot(&mut self, slot: Option<(NonZeroU32, u16)>) {
        self.slot = slot;
    }

    /// Whether it is the driver of this number, which is neither zero nor the highest.
    pub(crate) fn is(&self, driver: u32) -> bool {
        debug_assert!(driver != Self::NOBODY && driver != Self::IMPOSSIBLE);
        self.driver.load(Ordering::Relaxed) == driver
    }

    pub(crate) fn set(&self, driver: u32) {
        self.driver.store(driver, Ordering::Relaxed);
    }

    /// Whether no driver can: it is a file that is always ready.
    pub(crate) fn is_impossible(&self) -> bool {
        self.driver.load(Ordering::Relaxed) == Self::IMPOSSIBLE
    }

    pub(crate) fn set_impossible(&self) {
        self.set(Self::IMPOSSIBLE);
    }

    /// Whether a connection has lasted for some receives, of which this is one.
    pub(crate) fn lasts(&self) -> bool {
        const RECEIVES: u8 = 3;
        let receives = self.receives.load(Ordering::Relaxed);
        let lasts = receives == RECEIVES;
        if !lasts {
            self.receives.store(receives + 1, Ordering::Relaxed);
        }
        lasts
    }

    /// Whether a receive of fewer bytes than asked for leaves none behind, as `ask` tells once.
    pub(crate) fn drains(&self, ask: impl FnOnce() -> bool) -> bool {
        match self.drains.load(Ordering::Relaxed) {
            Self::UNKNOWN => {
                let drains = ask();
                let known = if drains { Self::DRAINS } else { Self::LEAVES };
                self.drains.store(known, Ordering::Relaxed);
                drains
            }
            known => known == Self::DRAINS,
        }
    }

    /// The poll that stands for it, if there is one: of which ring, and its key there.
    pub(crate) fn poll(&self) -> Option<(NonZeroU32, u32)> {
        let registration = self.poll.get()?;
        Some((registration.ring(), registration.poll()?))
    }

    /// Gives that up; whether there was one.
    pub(crate) fn give_up_poll(&mut self) -> bool {
        self.poll.take().is_some()
    }

    /// Remembers the poll that stands for it. One that is not the first is given up.
    pub(crate) fn set_poll(&self, poll: Registration) {
        drop(self.poll.set(poll));
    }

    /// Whether what is read and written goes past the page cache, to the device at once.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    pub(crate) fn set_direct(&mut self, is_direct: bool) {
        self.is_direct = is_direct;
    }

    /// Whether completions of reads and writes may be found by polling the device.
    pub(crate) fn may_poll_device(&self) -> bool {
        self.is_direct && !self.refuses_polling.load(Ordering::Relaxed)
    }

    /// Remembers that the device refuses to be polled.
    pub(crate) fn refuse_device_polling(&self) {
        self.refuses_polling.store(true, Ordering::Relaxed);
    }
}

/// A file, socket or pipe that keeps the driver state of its descriptor.
pub(crate) trait HasFdState {
    /// Returns the driver state, which the caller may access exclusively.
    fn fd_state(&mut self) -> &mut FdState;
}

/// Implements [`HasFdState`] for types with the state in the given field.
macro_rules! impl_has_fd_state {
    ($file:ty, $($fd_state:tt).+) => {
        impl $crate::resource::descriptor::HasFdState for $file {
            fn fd_state(&mut self) -> &mut $crate::resource::descriptor::FdState {
                &mut self.$($fd_state).+
            }
        }
    };
}

pub(crate) use impl_has_fd_state;
