//! [`Driver`]: crate::Driver
//! [`File::unlock`]: crate::fs::File::unlock
//! [`Uring`]: crate::Driver::Uring
//! [`Epoll`]: crate::Driver::Epoll
//! [`Threads`]: crate::Driver::Threads
//! [`Builder::driver`]: crate::runtime::Builder::driver
//! [`Builder::build`]: crate::runtime::Builder::build
//! [`Runtime::driver`]: crate::Runtime::driver
//! [`ring::submit`]: crate::ring::submit
//! [`Unsupported`]: std::io::ErrorKind::Unsupported
//! [`diagnose`]: crate::runtime::diagnose
//! [blocking]: super::blocking
//! [programs]: super::programs
//! [contents]: super
//! [from_threads]: super::from_threads

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("drivers.md")]
