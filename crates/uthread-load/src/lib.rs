//! Loads an echo or HTTP server over many connections, and checks every response.
//!
//! It is plain blocking code, with one or two fibers per connection. A closed loop sends on a
//! connection when a response has arrived, which measures the maximum rate. An open loop sends when
//! a message is due, which measures latency. The README explains the figures.

#![forbid(unsafe_code)]

mod crowd;
mod plan;
mod report;
mod target;

mod worker;

mod closed;
mod open;

mod drive;
mod task;

mod link;

mod exchange;
mod http;

mod chunked;

mod pacer;
mod schedule;

mod clock;
mod failure;
mod open_files;
mod tally;
mod usage;

use std::fmt;
use std::io;

pub use crowd::{Crowd, Stop};
pub use failure::Kind;
pub use open_files::raise_open_files;
pub use plan::{Pattern, Plan};
pub use report::{ErrorCount, Lateness, Percentiles, Report, Saturation};
pub use target::{Ask, Target};

/// Reasons why a load cannot start.
///
/// ```
/// let error = uthread_load::Target::tcp("nowhere", 16).unwrap_err();
/// assert!(matches!(error, uthread_load::Error::Usage(_)));
/// ```
#[derive(Debug)]
pub enum Error {
    /// The request is contradictory or invalid.
    Usage(String),
    /// This machine cannot carry it out; the message contains the remedy.
    Start(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(text) => formatter.write_str(text),
            Error::Start(error) => write!(formatter, "cannot start: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Usage(_) => None,
            Error::Start(error) => Some(error),
        }
    }
}
