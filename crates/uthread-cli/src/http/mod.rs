//! The HTTP/1.1 protocol (RFC 9110, 9112): parses request heads, writes response heads, and applies
//! the rules between them.
//!
//! Nothing here opens a file or a socket. Every function maps bytes to values, so every rule has
//! tests as data.

pub(crate) mod request;
pub(crate) mod response;

pub(crate) mod reply;

pub(crate) mod conditional;
pub(crate) mod date;
pub(crate) mod media_type;
pub(crate) mod negotiate;
pub(crate) mod range;
