//! [items]: super::items
//! [blocking]: super::blocking
//! [`local!`]: mod@crate::local
//! [`FiberContext`]: crate::runtime::FiberContext
//! [thread-local storage of its own]: crate::runtime::Builder::own_tls
//! [`blocking`]: crate::blocking()
//! [`shield`]: crate::shield
//! [`sync::mpsc`]: crate::sync::mpsc
//! [`Runtime`]: crate::Runtime#dropping
//! [`run`]: crate::run
//! [soundness]: super::soundness
//! [tuning#stack-size]: super::tuning#stack-size
//! [`io::splice`]: crate::io::splice
//! [`TcpStream::send_file`]: crate::net::TcpStream::send_file
//! [`fs::copy`]: crate::fs::copy
//! [cancellation]: super::cancellation
//! [`select!`]: mod@crate::sync::select
//! [`sync::oneshot`]: crate::sync::oneshot
//! [`signal`]: crate::signal
//! [`net::serve`]: crate::net::serve
//! [`net::TcpSocket`]: crate::net::TcpSocket
//! [`fs::Dir`]: crate::fs::Dir
//! [`fs::AlignedBuffer`]: crate::fs::AlignedBuffer
//! [`ring`]: crate::ring
//! [`join`]: crate::join()
//! [`time::interval`]: crate::time::interval
//! [async_crates]: super::async_crates
//! [contents]: super

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("porting.md")]
