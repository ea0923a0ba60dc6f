//! The program `uthread` from outside: its processes, sockets, signals and exit codes. Each
//! subcommand has a module, and `startup`, `sockets` and `memory` are about several.

mod harness;
#[path = "../../../uthread/tests/restrict/mod.rs"]
mod restrict;
mod terminal;

mod audit;
mod doctor;
mod dump;
mod echo;
mod iobench;
mod load;
mod model;
mod port;
#[cfg(target_arch = "x86_64")]
mod run;
mod search;
mod serve;
mod top;
#[cfg(target_arch = "x86_64")]
mod trace;
mod tunnel;

mod memory;
mod sockets;
mod startup;
