//! Ending a worker's sleep from any thread: by a message to its ring, or through an eventfd.
//!
//! A message needs neither a ring of the sender (on Linux 6.13 and newer) nor a pending request of
//! the receiver. Otherwise the ring polls an eventfd, and a wake-up is a write to it.
#![allow(unsafe_code, reason = "a system call that no crate offers yet")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use io_uring::squeue::Entry;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use rustix::io::Errno;

use super::user_data::UserData;
use crate::driver::Wake;
use crate::driver::eventfd::Eventfd;
use crate::resource::standard;

/// Wakes one worker. Owns the ring's descriptor, so a late wake-up cannot affect another file.
pub(crate) enum Waker {
    Message { ring: OwnedFd },
    Eventfd { eventfd: Eventfd },
}

impl Waker {
    /// Returns the best waker for a ring of the calling thread: a message if a test message
    /// arrives.
    pub(super) fn new(ring: &IoUring) -> io::Result<Waker> {
        let target = standard::duplicate(as_fd(ring))?;
        let waker = Waker::Message { ring: target };
        // The test message stays in the ring: a spurious wake-up is harmless.
        if waker.try_wake().is_ok() {
            Ok(waker)
        } else {
            Waker::by_eventfd()
        }
    }

    pub(super) fn by_eventfd() -> io::Result<Waker> {
        Ok(Waker::Eventfd {
            eventfd: Eventfd::new()?,
        })
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Waker::Message { .. } => "ring message",
            Waker::Eventfd { .. } => "eventfd",
        }
    }

    pub(super) fn try_clone(&self) -> io::Result<Waker> {
        Ok(match self {
            Waker::Message { ring } => Waker::Message {
                ring: ring.try_clone()?,
            },
            Waker::Eventfd { eventfd } => Waker::Eventfd {
                eventfd: eventfd.try_clone()?,
            },
        })
    }

    fn try_wake(&self) -> io::Result<()> {
        match self {
            Waker::Message { ring } => send_message(ring),
            Waker::Eventfd { eventfd } => Ok(eventfd.ring()?),
        }
    }

    /// Clears wake-ups that are stored. Returns `true` if there were any.
    pub(super) fn clear(&self) -> bool {
        match self {
            Waker::Message { .. } => false,
            Waker::Eventfd { eventfd } => eventfd.clear(),
        }
    }

    /// Returns the request that the ring must keep pending to receive wake-ups.
    pub(super) fn listen(&self) -> Option<Entry> {
        match self {
            Waker::Message { .. } => None,
            Waker::Eventfd { eventfd } => {
                let events = rustix::event::PollFlags::IN.bits();
                let poll = opcode::PollAdd::new(Fd(eventfd.as_fd().as_raw_fd()), u32::from(events));
                Some(poll.build())
            }
        }
    }
}

impl Wake for Waker {
    /// Retries if the kernel is short of memory.
    fn wake(&self) {
        while let Err(error) = self.try_wake() {
            match Errno::from_io_error(&error) {
                Some(Errno::NOMEM | Errno::AGAIN | Errno::INTR) => std::thread::yield_now(),
                _ => crate::driver::abort_unwoken(&error),
            }
        }
    }
}

fn as_fd(ring: &IoUring) -> std::os::fd::BorrowedFd<'_> {
    // SAFETY: the descriptor is the ring's and is borrowed only while the ring is.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(ring.as_raw_fd()) }
}

fn send_message(ring: &OwnedFd) -> io::Result<()> {
    const REGISTER_SEND_MSG_RING: libc::c_uint = 31;
    let ring = Fd(ring.as_fd().as_raw_fd());
    let user_data = UserData::Wake.encode();
    let message: Entry = opcode::MsgRingData::new(ring, 0, user_data, None).build();
    // SAFETY: `Entry` is the kernel's `struct io_uring_sqe` and outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            -1,
            REGISTER_SEND_MSG_RING,
            &raw const message,
            1,
        )
    };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match Errno::from_io_error(&error) {
        // The worker has ended and needs no wake-up.
        Some(Errno::OWNERDEAD) => Ok(()),
        _ => Err(error),
    }
}
