//! Whether the caller's worker has a ring, and what that can do.

use super::{current, threads};

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

/// Whether the ring of the caller's worker carries out operations of this code.
pub(crate) fn supports(opcode: u8) -> Result<bool, NoRing> {
    match current::with_fiber(|worker| worker.supports(opcode)) {
        Some(supports) => supports.ok_or(NoRing::OtherDriver),
        None if threads::current().is_some() => Err(NoRing::Threads),
        None => Err(NoRing::Outside),
    }
}
