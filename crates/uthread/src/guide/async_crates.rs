//! [`net`]: crate::net
//! [lean]: crate::runtime::Builder::lean
//! [`blocking`]: crate::blocking()
//! [`block_on`]: crate::block_on
//! [`sleep`]: crate::sleep
//! [`timeout`]: crate::timeout
//! [`try_block_on`]: crate::thread::try_block_on
//! [from_async]: super::from_async
//! [contents]: super
//! [porting]: super::porting

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("async_crates.md")]
