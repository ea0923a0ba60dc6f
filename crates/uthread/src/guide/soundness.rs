//! [porting]: super::porting
//! [`local!`]: mod@crate::local
//! [`blocking`]: crate::blocking
//! [`process::exit`]: crate::process::exit
//! [`Builder::lean`]: crate::runtime::Builder::lean
//! [`diagnose`]: crate::runtime::diagnose
//! [`scope`]: crate::scope
//! [`join`]: crate::join
//! [`JoinHandle::cancel`]: crate::JoinHandle::cancel
//! [`timeout`]: crate::timeout
//! [`deadline`]: crate::time::deadline
//! [`try_scope`]: crate::try_scope
//! [`Runtime`]: crate::Runtime#dropping
//! [`run`]: crate::run
//! [cancellation]: super::cancellation
//! [`shield`]: crate::shield
//! [`thread::Builder::stack_size`]: crate::thread::Builder::stack_size
//! [blocking]: super::blocking
//! [`thread::panicking`]: crate::thread::panicking
//! [`process::Command`]: crate::process::Command
//! [`spawn`]: crate::spawn
//! [tuning]: super::tuning
//! [contents]: super

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("soundness.md")]
