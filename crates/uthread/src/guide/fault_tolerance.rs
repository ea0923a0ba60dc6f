//! [`timeout`]: crate::timeout
//! [`try_scope`]: crate::try_scope
//! [`JoinHandle::cancel`]: crate::JoinHandle::cancel
//! [`net::serve`]: crate::net::serve
//! [`AcceptFailure`]: crate::net::AcceptFailure
//! [`TcpListener::shutdown`]: crate::net::TcpListener::shutdown
//! [`shield`]: crate::shield
//! [cancellation]: super::cancellation
//! [contents]: super
//! [services]: super::services

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("fault_tolerance.md")]
