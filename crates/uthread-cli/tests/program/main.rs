//! The program `uthread` from outside: its processes, sockets, signals and exit codes, one file per theme.

mod harness;
#[path = "../../../uthread/tests/restrict/mod.rs"]
mod restrict;

mod conditional;
mod content;
mod deadlines;
mod doctor;
mod drain;
mod echo;
mod iobench;
mod limits;
mod listing;
mod load;
mod log;
mod memory;
mod model;
mod paths;
mod port;
mod ranges;
mod search;
mod smuggling;
mod startup;
mod tree;
