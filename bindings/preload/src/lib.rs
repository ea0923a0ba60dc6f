//! Runs a program for pthreads on fibers as it is: preloaded, this library takes the place of the
//! functions of the C library that create threads and wait.
//!
//! | module | contents |
//! | --- | --- |
//! | `functions` | the functions that are replaced |
//! | `report` | what `--stats` and `--verbose` print |
//! | `own` | programs that use uthread themselves |
//! | `real` | the functions of the C library |
//! | `calls` | calls that wait |
//! | `futex` | the system call `futex` |
//! | `objects` | how locks are initialized |
//! | `threads` | threads, and what is asked about them |
//! | `signals` | how handlers of signals are installed |
//! | `cancel` | clean-up handlers of programs in C |
//! | `entries` | where the program calls the functions |
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

mod functions;

mod report;

mod own;

mod real;

mod calls;
mod cancel;
mod futex;
mod objects;
mod signals;
mod threads;

mod entries;
