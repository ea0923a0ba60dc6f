//! [contents]: super
//! [items]: super::items
//! [blocking]: super::blocking

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("pthreads.md")]
