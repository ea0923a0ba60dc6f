//! The scheduler: workers, their queues, and the calls by which a fiber waits.
//!
//! | module | contents |
//! | --- | --- |
//! | [`features`] | services for fibers beyond waiting |
//! | [`caller`] | the scheduler as its caller sees it: spawning, waiting, turns, panics, cancellation |
//! | [`worker`] | the loop of one worker |
//! | [`threads`] | the threads driver: fibers that are threads, without a worker |
//! | [`monitor`] | the thread that notices fibers which monopolize their worker |
//! | [`shared`] | the common state of a runtime's workers: injector, sleepers, spare threads, shutdown |
//! | [`reactor`] | a worker's operations, timers and completions |
//! | [`budget`] | the number of calls after which a fiber yields |
//! | [`queues`] | the queues in which fibers wait for a worker |
//! | [`fast_rand`] | cheap random numbers, for fair choices |
//!
//! A module uses only modules below it. The README describes how workers sleep and wake, and in
//! which order fibers run.

pub(crate) mod budget;
pub(crate) mod caller;
pub(crate) mod fast_rand;
pub(crate) mod features;
pub(crate) mod monitor;
pub(crate) mod queues;
pub(crate) mod reactor;
pub(crate) mod shared;
pub(crate) mod threads;
pub(crate) mod worker;
