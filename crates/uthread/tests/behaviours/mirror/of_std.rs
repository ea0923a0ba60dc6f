//! The program on threads.

use std::thread;

#[path = "program.rs"]
pub(super) mod program;
