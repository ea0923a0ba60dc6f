//! [first_server]: super::first_server
//! [services]: super::services
//! [production]: super::production
//! [drivers#containers]: super::drivers#containers
//! [blocking]: super::blocking
//! [channels]: super::channels
//! [contents]: super
//! [interpose]: https://docs.rs/uthread-interpose

// The links above come first, and so take the place of those in the text, which lead to files. The
// package `uthread-examples` compiles the first program, which needs another crate, and has the last one.
#![cfg_attr(not(doctest), doc = include_str!("first_service.md"))]
