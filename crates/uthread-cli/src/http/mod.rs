//! HTTP/1.1 as a protocol (RFC 9110, 9112): heads in, heads out, and the rules between them.
//!
//! Nothing here opens a file or a socket: every function is bytes to values, so every rule is tested as data.

pub(crate) mod request;
pub(crate) mod response;

pub(crate) mod conditional;
pub(crate) mod date;
pub(crate) mod media_type;
pub(crate) mod negotiate;
pub(crate) mod range;
