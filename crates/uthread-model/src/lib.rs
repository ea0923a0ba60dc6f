//! Simulates how blocking and asynchronous services behave under load: latency, spikes and failing
//! dependencies, and what protects from them.
//!
//! A [`Scenario`] describes which requests arrive, what the service calls, and what clients do.
//! [`simulate`] runs it in virtual time, with a pool of threads or with a fiber for each request,
//! and returns an [`Outcome`]. [`run`] is the command `uthread model`, which also runs scenarios as
//! real programs. The README has the structure.

#![forbid(unsafe_code)]

mod load;
mod options;
mod reality;
mod scenario;

pub mod stories;

mod mode;
mod simulation;

mod arrivals;
mod chain;
mod service;
mod world;

mod dependency;
mod events;
mod server;

mod real;

mod compare;
mod outcome;
mod simulated;

mod latencies;
mod limit;
mod series;
mod steady;
mod tally;
mod timeline;
mod times;

mod json;
mod page;
mod plan;
mod table;

mod latency;
mod values;
mod words;

pub use mode::Mode;
pub use options::{Options, run};
pub use outcome::{Failed, Level, Measured, Outcome, Percentile, Spread, Tier};
pub use scenario::Scenario;
pub use series::{Interval, Series};
pub use simulation::simulate;
pub use uthread_report::Unavailable;
