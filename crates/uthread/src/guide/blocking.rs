//! [`uthread::sync`]: crate::sync
//! [`blocking`]: crate::blocking
//! [dedicated]: crate::thread::Builder::dedicated
//! [`uthread::io::stdout`]: crate::io::stdout
//! [`yield_now`]: crate::yield_now
//! [`join`]: crate::join
//! [`Builder::blocking_threads`]: crate::runtime::Builder::blocking_threads
//! [cancellation]: super::cancellation
//! [`Runtime::metrics`]: crate::Runtime::metrics
//! [`Builder::lean`]: crate::runtime::Builder::lean
//! [`Builder::on_stall`]: crate::runtime::Builder::on_stall
//! [`Builder::stall_threshold`]: crate::runtime::Builder::stall_threshold
//! [`Stall`]: crate::runtime::Stall
//! [items]: super::items
//! [pthreads]: super::pthreads
//! [contents]: super
//! [hangs]: super::hangs

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("blocking.md")]
