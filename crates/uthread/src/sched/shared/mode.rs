//! How fibers relate to the workers of their runtime.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A fiber stays on the worker that has started it.
    Staying,
    /// Idle workers take fibers from others. For the simulation, whose fibers cannot have
    /// thread-local storage of their own.
    #[cfg(test)]
    Migrating,
    /// Idle workers take fibers from others, and each fiber has thread-local storage of its own.
    OwnTls,
}
