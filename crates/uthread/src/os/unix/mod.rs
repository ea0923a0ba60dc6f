//! Unix-specific extensions, with the names of `std::os::unix`.

pub mod fs;

/// Unix sockets; the same module as [`net::unix`](crate::net::unix).
pub use crate::net::unix as net;
