//! Sizes of stacks and of their batches.

/// The smallest stack without its guard: room for a panic with its backtrace.
pub(crate) const STACK_SIZE_MIN: usize = 64 * 1024;

/// Larger stacks than any thread has are a mistake in the argument, and the arithmetic of the pool, which
/// maps up to 4,096 at once, has to fit the address space.
pub(crate) const STACK_SIZE_MAX: usize = 1024 * 1024 * 1024;

/// Stacks made, handed out and taken back at once: enough that a system call for all costs little for each, few
/// enough that the pages that no fiber needs after all are 64 KiB a worker.
pub(crate) const BATCH_STACKS: usize = 16;

/// What a returned stack keeps: the pages any fiber touches again at once.
pub(super) const KEPT_BYTES: usize = 8 * 1024;
