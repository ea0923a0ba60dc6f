//! The scheduler: workers, their queues, and the calls by which a fiber waits.
//!
//! | file | contents |
//! | --- | --- |
//! | [`wait`] | the calls by which a fiber, or a thread outside the runtime, waits |
//! | [`readiness`] | waiting for descriptors beside wake-ups |
//! | [`multishot_queue`] | completions of a multishot operation, until they are taken |
//! | [`offload`] | blocking calls on the pool's threads |
//! | [`ticket_lock`] | a fair lock for fibers and threads |
//! | [`ring`] | the features of the caller's ring |
//! | [`fork`] | the state of a fiber in a child made by `fork` |
//! | [`thread_ends`] | waiting for the end of a fiber's thread |
//! | [`mode`] | whether fibers migrate, and have thread-local storage of their own |
//! | [`monitor`] | the thread that notices fibers which monopolize their worker |
//! | [`trims`] | when a worker is asked to trim the stacks of waiting fibers |
//! | [`threads`] | the threads driver: fibers that are threads, without a worker |
//! | [`thread_handles`] | the join handles of such threads |
//! | [`worker`] | the loop of one worker |
//! | [`budget`] | the number of calls after which a fiber yields |
//! | [`abandonment`] | whether the fibers of a runtime that ends are awaited |
//! | [`shared`] | the common state of a runtime's workers: injector, shutdown |
//! | [`notifier`] | wakes the monitor |
//! | [`runners`] | stacks with blocks of thread-local storage, for fibers that have their own |
//! | [`replacement`] | replacing a worker that is stuck |
//! | [`spares`] | workers that go on in place of those whose fibers block them |
//! | [`shortage`] | new fibers for which there is no memory |
//! | [`inbox`] | messages to one worker |
//! | [`idle`] | which workers sleep, and which are woken (with a README) |
//! | [`ready`] | the ready fibers of a worker |
//! | [`classes`] | the fibers whose priority is not normal (with a section in the README) |
//! | [`reactor`] | a worker's operations, timers and completions |
//! | [`reap_gate`] | whether other workers may reap its completions |
//! | [`operations`] | the operations of a worker in flight |
//! | [`timers`] | the timer wheel |
//! | [`driver_cell`] | the driver of a worker |
//! | [`local_or_shared`] | a value that a worker owns alone, or shares |
//! | [`counters`] | the counts of a worker |
//! | [`fast_rand`] | cheap random numbers, for fair choices |
//!
//! A module uses only modules below it.

pub(crate) mod abandonment;
pub(crate) mod budget;
mod classes;
pub(crate) mod counters;
pub(crate) mod driver_cell;
pub(crate) mod fast_rand;
pub(crate) mod fork;
pub(crate) mod idle;
pub(crate) mod inbox;
pub(crate) mod local_or_shared;
pub(crate) mod mode;
pub(crate) mod monitor;
pub(crate) mod multishot_queue;
mod new_fibers;
pub(crate) mod notifier;
pub(crate) mod offload;
pub(crate) mod operations;
pub(crate) mod reactor;
pub(crate) mod readiness;
pub(crate) mod ready;
pub(crate) mod reap_gate;
mod replacement;
pub(crate) mod ring;
mod run_queue;
mod runners;
pub(crate) mod shared;
pub(crate) mod shortage;
mod spares;
mod tables;
pub(crate) mod thread_ends;
pub(crate) mod thread_handles;
pub(crate) mod threads;
pub(crate) mod ticket_lock;
pub(crate) mod timers;
mod trims;
pub(crate) mod wait;
pub(crate) mod worker;
