//! What `std` has in `std::os::unix`.

pub mod fs;

/// Sockets of this machine; the same as in [`crate::net`].
pub use crate::net::unix as net;
