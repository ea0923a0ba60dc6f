//! What `std::os` has of sockets, at its place there.

/// What Unix systems have.
pub mod unix {
    /// Sockets of this machine; the same as in [`crate::net`].
    pub use crate::net::unix as net;
}
