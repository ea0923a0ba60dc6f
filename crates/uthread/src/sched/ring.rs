//! Whether the caller's worker has a ring, and what that can do and has.

use std::io;
use std::sync::Arc;

use super::{current, threads};
use crate::driver::Driver;
use crate::op::group::BufferGroup;

/// Why the caller has no ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRing {
    /// Its worker has another driver.
    OtherDriver,
    /// It is a fiber that is a thread.
    Threads,
    /// It is no fiber.
    Outside,
}

/// Looks whether the caller's worker has a ring.
pub(crate) fn require() -> Result<(), NoRing> {
    match with_driver(|driver| driver.has_ring()) {
        Some(true) => Ok(()),
        Some(false) => Err(NoRing::OtherDriver),
        None if threads::current().is_some() => Err(NoRing::Threads),
        None => Err(NoRing::Outside),
    }
}

/// Whether the ring of the caller's worker, if it has one, carries out operations of this code.
pub(crate) fn supports(opcode: u8) -> bool {
    with_driver(|driver| driver.supports(opcode)).unwrap_or(false)
}

/// Lends a group of buffers to that ring; none where there is no ring.
///
/// # Errors
///
/// As [`Driver::lend`].
pub(crate) fn lend(count: u16, size: u32) -> Option<io::Result<Arc<BufferGroup>>> {
    with_driver(|driver| driver.has_ring().then(|| driver.lend(count, size))).flatten()
}

/// Whether that ring was lent this group.
pub(crate) fn has_group(group: &BufferGroup) -> bool {
    with_driver(|driver| driver.has_group(group)).unwrap_or(false)
}

fn with_driver<R>(action: impl FnOnce(&mut dyn Driver) -> R) -> Option<R> {
    current::with_fiber(|worker| worker.with_driver(action))
}
