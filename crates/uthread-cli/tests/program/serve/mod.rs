//! `uthread serve`, one file per theme.

mod conditional;
mod content;
mod counters;
mod deadlines;
mod drain;
mod limits;
mod listing;
mod log;
mod paths;
mod ranges;
mod root;
mod smuggling;
mod tree;
