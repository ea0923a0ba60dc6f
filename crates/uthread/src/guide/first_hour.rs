//! [`block_on`]: crate::block_on
//! [first_server]: super::first_server
//! [async_crates]: super::async_crates
//! [blocking]: super::blocking
//! [contents]: super

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("first_hour.md")]
