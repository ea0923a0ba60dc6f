//! How a figure is taken: what is read from the kernel, when, how often, and what is concluded from it.

pub(crate) mod calls;
pub(crate) mod held;
pub(crate) mod kernel;
pub(crate) mod proc;
pub(crate) mod quiet;
pub(crate) mod rounds;
pub(crate) mod stats;
