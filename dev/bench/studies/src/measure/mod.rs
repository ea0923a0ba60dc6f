//! Figures of servers and of the requests to the kernel, beyond those of `uthread-report`.

pub(crate) mod calls;
pub(crate) mod memory;
