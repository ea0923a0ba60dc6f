//! [`listeners_from_env`]: crate::net::listeners_from_env
//! [shut it down]: crate::net::TcpListener::shutdown
//! [`UnixListener`]: crate::net::UnixListener
//! [`TcpListener::bind`]: crate::net::TcpListener::bind
//! [`TcpSocket::listen`]: crate::net::TcpSocket::listen
//! [`TcpSocket::set_reuse_port`]: crate::net::TcpSocket::set_reuse_port
//! [drivers#containers]: super::drivers#containers
//! [`Runtime::metrics`]: crate::Runtime::metrics
//! [blocking]: super::blocking
//! [`Builder::sample_delays`]: crate::runtime::Builder::sample_delays
//! [clients]: super::clients
//! [contents]: super
//! [tuning]: super::tuning

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("production.md")]
