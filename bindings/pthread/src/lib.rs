//! The interface of pthreads for fibers: what `pthread.h` has, with the prefix `uthread_`, and the
//! calls that wait.
//!
//! The functions take what those of POSIX take, and return what they return; the
//! [manual pages](https://man7.org/linux/man-pages/man7/pthreads.7.html) describe them. Any thread
//! may call any of them: on a thread that is not a fiber, they block it. `include/uthread.h`
//! declares them, and with `include/uthread_pthread.h` a program that is written for pthreads is
//! compiled for fibers.
//!
//! An object of the program, such as a mutex, is as large as that of glibc, and a zeroed one is
//! initialized. It consists of words in which fibers wait by [`uthread::sync::futex`].
//!
//! A fiber ends like a thread: `uthread_exit` and a cancellation run the clean-up handlers, and
//! unwind the stack, which runs the destructors of C++ and Rust.
//!
//! | module | contents |
//! | --- | --- |
//! | `attributes` | how a thread is created |
//! | `deadline` | times of C as moments |
//! | `errno` | results as C reports them |
//! | `stalls` | reports of threads that keep a worker |
//! | `signals` | handlers of signals |
//! | `process` | the runtime of the process |
//! | `record` | the record of a thread, and its end |
//! | `thread` | create, join, detach, exit |
//! | `cancel` | cancellation, and clean-up handlers |
//! | `spin` | locks that do not wait |
//! | `once` | initialization, and values of a thread |
//! | `mutex` | mutexes |
//! | `condition` | condition variables |
//! | `rwlock` | locks for readers and writers |
//! | `semaphore` | semaphores |
//! | `barrier` | barriers |
//! | `futex` | the system call `futex`, on words of the process |
//! | `sleep` | sleeps, and letting others run |
//! | `blocking` | calls that block a thread |
//! | `descriptor` | waits for a descriptor |
//! | `sockets` | calls on sockets |
//! | `files` | calls on files and pipes |
//! | `poll` | waits for several descriptors |
//! | `epoll` | waits for an epoll instance |
//! | `children` | waits for child processes |
#![allow(
    non_camel_case_types,
    reason = "the types have the names that C programs know"
)]

mod errno;

mod deadline;

mod attributes;

mod stalls;

pub mod signals;

pub mod process;
pub mod record;

pub mod cancel;
pub mod thread;

pub mod barrier;
pub mod mutex;
pub mod once;
pub mod rwlock;
pub mod semaphore;
pub mod spin;

pub mod condition;

pub mod futex;
pub mod sleep;

pub mod blocking;
mod descriptor;

pub mod files;
pub mod poll;
pub mod sockets;

pub mod children;
pub mod epoll;

pub use attributes::*;
