//! The program on fibers.

use uthread::thread;

#[path = "program.rs"]
#[allow(clippy::duplicate_mod, reason = "that is what it is about")]
pub(super) mod program;
