//! The shared state of a runtime, line by line, and the calls of its workers as accesses to these
//! lines.
//!
//! | module | contents |
//! | --- | --- |
//! | [`idle_calls`] | searching, sleeping and waking |
//! | [`queue_calls`] | deques and the injector |
//! | [`calls`] | the program of one core |
//! | [`layout`] | the objects, and their lines |
//!
//! `Idle`, `Sleeper` and `Inbox` are the library's own files, whose accesses are recorded. What
//! cannot be included is a list of accesses after the source that the comment names. Objects have
//! the layout of the library, so that fields share lines as they do there.

mod calls;
mod idle_calls;
mod layout;
mod queue_calls;

pub(crate) use calls::Calls;
pub(crate) use layout::{Remedy, Runtime};

#[cfg(test)]
mod tests;
