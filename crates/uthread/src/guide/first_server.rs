//! [`spawn`]: crate::spawn
//! [main]: macro@crate::main
//! [`net::serve`]: crate::net::serve
//! [`timeout`]: crate::timeout
//! [`TimedOut`]: std::io::ErrorKind::TimedOut
//! [`TcpStream::set_read_timeout`]: crate::net::TcpStream::set_read_timeout
//! [`TcpListener::shutdown`]: crate::net::TcpListener::shutdown
//! [`serve_with_grace`]: crate::net::serve_with_grace
//! [cancellation]: super::cancellation
//! [`uthread::sync`]: crate::sync
//! [blocking]: super::blocking
//! [channels]: super::channels
//! [first_service]: super::first_service
//! [test]: macro@crate::test
//! [first_hour]: super::first_hour
//! [contents]: super

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("first_server.md")]
