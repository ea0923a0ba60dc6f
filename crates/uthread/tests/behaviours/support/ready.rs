//! Readiness of descriptors as reported by a selection, and waiting for it beside an arm that is
//! never ready.

use std::io;
use std::os::fd::AsFd;

use super::HANG;
use uthread::select;
use uthread::sync::mpsc::channel;

/// Waits until it is readable.
pub(crate) fn await_readable(fd: &impl AsFd) -> io::Result<()> {
    let (_sender, silent) = channel::<()>();
    select! {
        readable(fd) -> ready => ready,
        recv(&silent) => panic!("a message was received, but none was sent"),
        after(HANG) => panic!("the descriptor is not ready"),
    }
}

/// Waits until it is writable.
pub(crate) fn await_writable(fd: &impl AsFd) -> io::Result<()> {
    let (_sender, silent) = channel::<()>();
    select! {
        recv(&silent) => panic!("a message was received, but none was sent"),
        writable(fd) -> ready => ready,
        after(HANG) => panic!("the descriptor is not ready"),
    }
}

/// Returns `true` if the descriptor is readable.
pub(crate) fn is_readable(fd: &impl AsFd) -> bool {
    select! {
        readable(fd) -> ready => { ready.unwrap(); true }
        default => false,
    }
}

/// Returns `true` if the descriptor is writable.
pub(crate) fn is_writable(fd: &impl AsFd) -> bool {
    select! {
        writable(fd) -> ready => { ready.unwrap(); true }
        default => false,
    }
}
