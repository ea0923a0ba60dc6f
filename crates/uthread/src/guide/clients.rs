//! [services]: super::services
//! [production]: super::production
//! [async_crates]: super::async_crates
//! [contents]: super
//! [`net`]: crate::net
//! [`sleep`]: crate::sleep
//! [`timeout`]: crate::timeout
//! [`watch`]: crate::sync::watch
//! [`Semaphore`]: crate::sync::Semaphore
//! [`TcpStream`]: crate::net::TcpStream

// The links above come first, and so take the place of those in the text, which lead to files. The
// package `uthread-examples` runs the examples, which need other crates.
#![cfg_attr(not(doctest), doc = include_str!("clients.md"))]
