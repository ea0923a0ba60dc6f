//! Synchronization by the names of `std::sync`: what waits suspends a fiber and blocks a thread.

pub mod mpsc;
pub mod oneshot;
pub mod select;

pub use crate::select;
