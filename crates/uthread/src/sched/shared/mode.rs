//! How fibers relate to the workers of their runtime.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A fiber stays on the worker that has started it.
    Staying,
    /// Idle workers take fibers from others; the program has promised that this is sound.
    Migrating,
    /// Idle workers take fibers from others, and each fiber has thread-local storage of its own.
    OwnTls,
}
