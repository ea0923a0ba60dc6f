//! [async_crates]: super::async_crates
//! [first_service]: super::first_service
//! [fault_tolerance]: super::fault_tolerance
//! [contents]: super
//! [clients]: super::clients
//! [lean]: crate::runtime::Builder::lean
//! [`block_on`]: crate::block_on
//! [`timeout`]: crate::timeout
//! [`Elapsed`]: crate::time::Elapsed

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("services.md")]
