//! Time by the names of `std::time`; what waits is in [`thread`](crate::thread).

pub use std::time::{Duration, Instant, SystemTime, SystemTimeError, UNIX_EPOCH};
