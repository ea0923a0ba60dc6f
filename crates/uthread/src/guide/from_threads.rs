//! [`uthread::thread`]: crate::thread
//! [porting]: super::porting
//! [`Semaphore`]: crate::sync::Semaphore
//! [`sync_channel`]: crate::sync::mpsc::sync_channel
//! [`net::serve`]: crate::net::serve
//! [blocking]: super::blocking
//! [soundness]: super::soundness#lean-fibers
//! [`JoinHandle::cancel`]: crate::JoinHandle::cancel
//! [`timeout`]: crate::timeout
//! [`try_scope`]: crate::try_scope
//! [cancellation]: super::cancellation
//! [tuning#stack-size]: super::tuning#stack-size
//! [`uthread::sync::Mutex`]: crate::sync::Mutex
//! [`scope`]: crate::scope
//! [`join`]: crate::join()
//! [`spawn`]: crate::spawn
//! [drivers]: super::drivers
//! [contents]: super
//! [from_async]: super::from_async

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("from_threads.md")]
