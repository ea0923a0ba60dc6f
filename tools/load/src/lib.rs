//! Loads an echo or HTTP server over many connections, and checks every answer.
//!
//! Plain blocking code, a fiber or two for each connection. A closed loop sends on a connection as soon as its answer
//! has come, which finds the rate; an open loop sends when a message is due, which finds the latency. The README tells
//! what the figures mean.

#![forbid(unsafe_code)]

mod crowd;
mod plan;
mod report;

mod worker;

mod closed;
mod open;

mod link;

mod exchange;
mod http;

mod pacer;
mod schedule;

mod clock;
mod failure;
mod open_files;
mod random;
mod tally;
mod usage;

use std::fmt;
use std::io;

pub use crowd::{Crowd, Stop};
pub use failure::Kind;
pub use open_files::raise_open_files;
pub use plan::{Pattern, Plan, Target};
pub use random::SplitMix;
pub use report::{ErrorCount, Lateness, Percentiles, Report, Saturation};

/// Why there is no load at all.
///
/// ```
/// let error = uthread_load::Target::tcp("nowhere", 16).unwrap_err();
/// assert!(matches!(error, uthread_load::Error::Usage(_)));
/// ```
#[derive(Debug)]
pub enum Error {
    /// What was asked for makes no sense.
    Usage(String),
    /// This machine cannot carry it out; the message has the remedy.
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
