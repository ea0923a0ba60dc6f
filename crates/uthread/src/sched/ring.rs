//! Whether the caller's worker has a ring, and what that can do and has.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::threads;
use super::worker::current;
use crate::driver::Driver;
use crate::resource::buffer_group::BufferGroup;
use crate::resource::registration::Registration;

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

/// Registers a group of buffers with that ring; none where there is no ring, or it does not take it.
pub(crate) fn register_buffer_group(count: u16, size: u32) -> Option<Arc<BufferGroup>> {
    with_driver(|driver| driver.register_buffer_group(count, size).ok()).flatten()
}

/// Whether this group is registered with that ring.
pub(crate) fn owns_buffer_group(group: &BufferGroup) -> bool {
    with_driver(|driver| driver.owns_buffer_group(group)).unwrap_or(false)
}

/// Registers new memory with that ring; none where there is no ring, or it does not take it.
pub(crate) fn register_buffer(bytes: usize) -> Option<Registration> {
    with_driver(|driver| driver.register_buffer(bytes).ok()).flatten()
}

/// Registers a file with that ring; none where there is no ring, or it has no place for it.
pub(crate) fn register_file(file: BorrowedFd<'_>) -> Option<Registration> {
    with_driver(|driver| driver.register_file(file).ok()).flatten()
}

/// A place among the files of that ring, with nothing there; none where there is no ring, or no place.
pub(crate) fn reserve_file() -> Option<Registration> {
    with_driver(|driver| driver.reserve_file().ok()).flatten()
}

fn with_driver<R>(action: impl FnOnce(&mut dyn Driver) -> R) -> Option<R> {
    current::with_fiber(|worker| worker.with_driver(action))
}
