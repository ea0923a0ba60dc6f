//! The features of the ring of the caller's worker, if it has one.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::driver::{Driver, RingFeatures};
use crate::resource::buffer_group::BufferGroup;
use crate::resource::registration::Registration;
use crate::sched::threads;
use crate::sched::worker::current;

/// The reason why the caller has no ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRing {
    /// Its worker has another driver.
    OtherDriver,
    /// The caller is a fiber of the threads driver.
    Threads,
    /// The caller is a dedicated fiber.
    Dedicated,
    /// The caller is not a fiber.
    Outside,
}

/// Returns an error unless the caller's worker has a ring.
pub(crate) fn require() -> Result<(), NoRing> {
    match with_driver(|driver| driver.ring().is_some()) {
        Some(true) => Ok(()),
        Some(false) => Err(NoRing::OtherDriver),
        None => {
            Err(
                threads::current().map_or(NoRing::Outside, |context| match context.runtime() {
                    Some(_) => NoRing::Dedicated,
                    None => NoRing::Threads,
                }),
            )
        }
    }
}

/// Returns `true` if the caller's worker has a ring that supports operations with this code.
pub(crate) fn supports(opcode: u8) -> bool {
    with_ring(|ring| ring.supports(opcode)).unwrap_or(false)
}

/// Registers a group of buffers with the ring. Returns `None` if there is no ring, or if it refuses
/// the group.
pub(crate) fn register_buffer_group(count: u16, size: u32) -> Option<Arc<BufferGroup>> {
    with_ring(|ring| ring.register_buffer_group(count, size).ok()).flatten()
}

/// Returns `true` if the group is registered with the ring of the caller's worker.
pub(crate) fn owns_buffer_group(group: &BufferGroup) -> bool {
    with_ring(|ring| ring.owns_buffer_group(group)).unwrap_or(false)
}

/// Registers new memory with the ring. Returns `None` if there is no ring, or if it refuses the
/// memory.
pub(crate) fn register_buffer(bytes: usize) -> Option<Registration> {
    with_ring(|ring| ring.register_buffer(bytes).ok()).flatten()
}

/// Registers a file with the ring. Returns `None` if there is no ring, or if it has no free slot.
pub(crate) fn register_file(file: BorrowedFd<'_>) -> Option<Registration> {
    with_ring(|ring| ring.register_file(file).ok()).flatten()
}

/// Reserves an empty file slot of the ring. Returns `None` if there is no ring, or if it has no
/// free slot.
pub(crate) fn reserve_file() -> Option<Registration> {
    with_ring(|ring| ring.reserve_file().ok()).flatten()
}

fn with_ring<R>(action: impl FnOnce(&mut dyn RingFeatures) -> R) -> Option<R> {
    with_driver(|driver| driver.ring().map(action)).flatten()
}

fn with_driver<R>(action: impl FnOnce(&mut dyn Driver) -> R) -> Option<R> {
    current::with_fiber(|worker| worker.io.with_driver(action))
}
