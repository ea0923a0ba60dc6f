//! The table of exit codes.

/// Exit codes of the program. `args.rs` documents the same table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    FailedRunning = 1,
    /// Also clap's code for wrong usage.
    CouldNotStart = 2,
    ConnectionsCut = 3,
}
