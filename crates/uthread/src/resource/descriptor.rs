//! An open descriptor, and the state that drivers keep for it.

use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// The descriptor that an operation is on, and its state.
#[derive(Clone, Copy)]
pub(crate) struct Descriptor<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) state: &'a FdState,
}

#[cfg(test)]
impl<'a> Descriptor<'a> {
    /// Creates a descriptor for drivers that do not watch it.
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
    /// Creates the state of a descriptor that is taken for a TCP socket, whatever it is.
    pub(crate) fn of_tcp() -> FdState {
        let state = FdState::new();
        assert!(state.drains(|| true));
        state
    }
}

/// Driver state of a descriptor. It is kept by the owner of the descriptor and not looked up by
/// number: the number may come to refer to another file, and drivers are not notified of that.
#[derive(Debug)]
pub(crate) struct FdState {
    /// The driver that watches the descriptor for readiness. Relaxed throughout: a driver acts only
    /// on its own number, which it has written itself.
    driver: AtomicU32,
    /// The ring that the file is registered with, and its slot. Set by the exclusive owner of the
    /// descriptor, so no operation on it is in flight.
    slot: Option<(NonZeroU32, u16)>,
    /// `true` if the file was opened for direct I/O. Set like `slot`.
    is_direct: bool,
    /// Set once the device has refused to be polled for completions. Relaxed: a late reader only
    /// tries once more.
    refuses_polling: AtomicBool,
    /// Number of receives so far, counted up to the threshold of a long-lived connection; with
    /// [`HAS_GATHERED`](FdState::HAS_GATHERED). Relaxed: the exact number does not matter.
    receives: AtomicU8,
    /// A cached answer: whether a receive that returns fewer bytes than requested has emptied the
    /// queue. Relaxed: a late reader only asks again.
    drains: AtomicU8,
}

impl FdState {
    const NOBODY: u32 = 0;
    const IMPOSSIBLE: u32 = u32::MAX;

    /// Number of receives of a long-lived connection.
    const RECEIVES: u8 = 3;
    /// Set if a send has gathered with others since the last receive.
    const HAS_GATHERED: u8 = 1 << 7;

    const UNKNOWN: u8 = 0;
    const DRAINS: u8 = 1;
    const LEAVES: u8 = 2;

    /// Creates the state of a descriptor that no driver has used.
    pub(crate) const fn new() -> FdState {
        FdState {
            driver: AtomicU32::new(Self::NOBODY),
            slot: None,
            is_direct: false,
            refuses_polling: AtomicBool::new(false),
            receives: AtomicU8::new(0),
            drains: AtomicU8::new(Self::UNKNOWN),
        }
    }

    /// Returns the slot at which the file is registered with the ring of this number.
    pub(crate) fn slot_in(&self, ring: NonZeroU32) -> Option<u16> {
        let (kept_by, slot) = self.slot?;
        (kept_by == ring).then_some(slot)
    }

    /// Records the ring that the file is registered with, and its slot; or that there is none.
    pub(crate) fn set_slot(&mut self, slot: Option<(NonZeroU32, u16)>) {
        self.slot = slot;
    }

    /// Returns `true` if the driver of this number watches the descriptor. The number is neither
    /// zero nor the maximum.
    pub(crate) fn is(&self, driver: u32) -> bool {
        debug_assert!(driver != Self::NOBODY && driver != Self::IMPOSSIBLE);
        self.driver.load(Ordering::Relaxed) == driver
    }

    pub(crate) fn set(&self, driver: u32) {
        self.driver.store(driver, Ordering::Relaxed);
    }

    /// Returns `true` if no driver can watch the descriptor, as it is a file that is always ready.
    pub(crate) fn is_impossible(&self) -> bool {
        self.driver.load(Ordering::Relaxed) == Self::IMPOSSIBLE
    }

    pub(crate) fn set_impossible(&self) {
        self.set(Self::IMPOSSIBLE);
    }

    /// Counts a receive, and returns `true` if the connection has become long-lived.
    pub(crate) fn lasts(&self) -> bool {
        let receives = self.receives.load(Ordering::Relaxed);
        let lasts = receives & !Self::HAS_GATHERED == Self::RECEIVES;
        if !lasts {
            self.receives.store(receives + 1, Ordering::Relaxed);
        }
        lasts
    }

    /// Records that a send gathers with others.
    #[inline]
    pub(crate) fn record_gathered(&self) {
        let receives = self.receives.load(Ordering::Relaxed);
        if receives < Self::RECEIVES {
            self.receives
                .store(receives | Self::HAS_GATHERED, Ordering::Relaxed);
        }
    }

    /// Returns `true` if a send of a connection that is not long-lived has gathered since the last
    /// call.
    pub(crate) fn take_gathered(&self) -> bool {
        let receives = self.receives.load(Ordering::Relaxed);
        self.receives
            .store(receives & !Self::HAS_GATHERED, Ordering::Relaxed);
        receives & Self::HAS_GATHERED != 0
    }

    /// Returns `true` if a receive that returns fewer bytes than requested empties the queue. Calls
    /// `ask` to find out, once.
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

    /// Returns `true` if reads and writes are direct I/O.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    pub(crate) fn set_direct(&mut self, is_direct: bool) {
        self.is_direct = is_direct;
    }

    /// Returns `true` if completions of reads and writes may be found by polling the device.
    pub(crate) fn may_poll_device(&self) -> bool {
        self.is_direct && !self.refuses_polling.load(Ordering::Relaxed)
    }

    /// Records that the device refuses to be polled.
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
