//! Synchronization by the names of `std::sync`: what waits suspends a fiber and blocks a thread.

pub mod broadcast;
pub mod mpsc;
pub mod oneshot;
pub mod promise;
pub mod select;

mod monitor;

pub use crate::select;
