//! Drivers: what carries operations to the kernel.
//!
//! A driver serves one worker and knows neither fibers nor who waits: it is given operations with
//! a token each and gives back tokens with results. What each must supply:
//!
//! | call | meaning |
//! | --- | --- |
//! | `new` | made on the worker's thread, by step-down where the kernel lacks something |
//! | `submit` | take an operation; it may reach the kernel as late as the next flush |
//! | `cancel` | ask for the end of a submitted operation; its own completion still comes |
//! | `flush` | pass on what gathered and collect what is done, without sleeping |
//! | `wait` | the same, and sleep until a completion, a wake-up or the timeout |
//! | `reap` | hand out the completions collected |
//! | `counts` | what it has done |
//! | `waker` | a handle by which any thread ends the present or next `wait` |
//! | `drop` | return when the kernel holds nothing of the driver's own |
//!
//! [`uring`] is the driver of workers. [`native`] carries out a single operation as an ordinary
//! blocking system call, for callers outside the runtime; [`page_cache`] tells whether one on a file
//! would wait for the disk.

pub(crate) mod native;
pub(crate) mod page_cache;
pub(crate) mod uring;

pub(crate) use uring::{Uring, waker::Waker};

/// What a driver has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// System calls.
    pub(crate) enters: u64,
    /// Operations handed to the kernel.
    pub(crate) submissions: u64,
    /// Operations that ended.
    pub(crate) completions: u64,
}

/// Names an operation between submission and completion. Chosen by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u64);

impl Token {
    /// Tokens at and above this are the driver's own.
    pub(crate) const RESERVED: u64 = u64::MAX - 15;
}
