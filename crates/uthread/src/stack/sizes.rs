//! Sizes of stacks and of their batches.

/// Minimum usable size of a stack: enough for a panic with a backtrace.
pub(crate) const STACK_SIZE_MIN: usize = 64 * 1024;

/// Maximum size of a stack. A larger one than any thread has is a mistake in the argument, and the
/// arithmetic of the pool, which maps up to 4096 stacks at once, has to fit the address space.
pub(crate) const STACK_SIZE_MAX: usize = 1024 * 1024 * 1024;

/// Number of stacks created, handed out and taken back at once: enough to spread the cost of a
/// system call, few enough that unused pages take only 64 KiB per worker.
pub(crate) const BATCH_STACKS: usize = 16;

/// Number of bytes that a returned stack keeps: the pages that any fiber touches again at once.
pub(super) const KEPT_BYTES: usize = 8 * 1024;
