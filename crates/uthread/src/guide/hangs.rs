//! [`uthread::timeout`]: crate::timeout
//! [`Runtime::metrics`]: crate::Runtime::metrics
//! [`runtime::fibers`]: crate::runtime::fibers()
//! [scope]: crate::thread::scope
//! [`Builder::on_stall`]: crate::runtime::Builder::on_stall
//! [contents]: super
//! [blocking]: super::blocking
//! [cancellation]: super::cancellation

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("hangs.md")]
