//! The guide: from a first server to tuning, porting and the reasons why fibers are sound.
//!
//! Getting started:
//!
//! - [`first_server`]: an echo server, step by step: fibers, bounds, timeouts and a graceful shutdown.
//! - [`channels`]: channels, and `select!` to wait for several events.
//! - [`drivers`]: io_uring, epoll or threads; what containers forbid; `uthread doctor`.
//! - [`from_threads`]: what changes for programs that use threads.
//! - [`from_async`]: the concepts of Tokio and their counterparts.
//! - [`async_crates`]: how a fiber waits for futures, with Tokio and without.
//!
//! Porting:
//!
//! - [`porting`]: how to port a `std` program, and what behaves differently afterwards.
//! - [`items`]: every stable item of the ported `std` modules and its counterpart.
//!
//! Going further:
//!
//! - [`blocking`]: what blocks a worker, how to find it, and what to do about it.
//! - [`cancellation`]: how to end a fiber, a block or a scope, and what its calls return.
//! - [`fault_tolerance`]: a service that survives slow, silent and failing peers.
//! - [`production`]: systemd, several processes, load balancers, containers, limits and metrics.
//! - [`tuning`]: workers, priorities, stack size, polling, registered memory, and what to measure first.
//! - [`soundness`]: thread-locals, values that are not `Send`, borrowed buffers, unwinding and `fork`.

pub mod first_server;

pub mod channels;

pub mod drivers;

pub mod from_threads;

pub mod from_async;

pub mod async_crates;

pub mod porting;

pub mod items;

pub mod blocking;

pub mod cancellation;

pub mod fault_tolerance;

pub mod production;

pub mod tuning;

pub mod soundness;
