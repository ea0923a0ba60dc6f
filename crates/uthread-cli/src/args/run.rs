//! The arguments of `run`.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use uthread::Driver;

const RUN_NOTES: &str = "\
The threads of the program become fibers: threads, mutexes, condition variables, semaphores and the \
other objects of pthreads, and calls that wait (reads, writes, sockets, poll, select, epoll, futexes, \
children, sleeps). It must be linked dynamically with glibc. Its first thread stays a thread. A call \
that is not known may block: the other fibers then go on on another thread.

Exit codes:
  those of the program
  2 it cannot be run so";

#[derive(Debug, Args)]
#[command(after_help = RUN_NOTES)]
pub(crate) struct RunArgs {
    /// Number of workers, which run fibers at the same time [default: the number of CPUs]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<NonZeroUsize>,
    /// I/O driver [default: UTHREAD_DRIVER, or the best available]
    #[arg(long, value_name = "DRIVER", value_parser = super::driver_parser())]
    pub(crate) driver: Option<Driver>,
    /// Print the numbers of threads, switches and calls to standard error at the end of the program,
    /// unless that is by `_exit` or a signal
    #[arg(long)]
    pub(crate) stats: bool,
    /// Tell on standard error what stays with the C library, or may block a thread: the first of each
    /// kind
    #[arg(long)]
    pub(crate) verbose: bool,
    /// The library that is preloaded [default: libuthread_preload.so beside this program, or in ../lib]
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    /// The program, and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub(crate) program: Vec<OsString>,
}
