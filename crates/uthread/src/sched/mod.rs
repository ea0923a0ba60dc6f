//! The scheduler: workers, their queues, and the calls by which a fiber waits.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`worker`] | the loop of one worker |
//! | [`counters`] | what a worker counts |
//! | [`current`] | which worker the calling thread is |
//! | [`shared`] | what workers share: injector, shutdown |
//! | [`shortage`] | new fibers for which there is no memory |
//! | [`inbox`] | what others hand to one worker |
//! | [`idle`] | who sleeps and who is woken (with a README) |
//! | [`ready`] | the fibers of a worker that can go on |
//! | [`reactor`] | what a worker keeps for fibers that do not run |
//! | [`reap_gate`] | whether others may take what arrives there |
//! | [`local_or_shared`] | a value that a worker owns alone, or shares |
//! | [`operations`] | the operations a worker has in flight |
//! | [`multishot_queue`] | completions of a multishot operation, until they are taken |
//! | [`timers`] | the timer wheel |
//! | [`monitor`] | the thread that notices a fiber that monopolizes its worker |
//! | [`threads`] | fibers that are threads, without a worker |
//! | [`thread_ends`] | whose thread-locals are still to be dropped |
//! | [`offload`] | threads for calls that only block |
//! | [`ticket_lock`] | a fair lock for fibers and threads |
//! | [`cancellation`] | whether the caller may wait |
//! | [`budget`] | when a fiber that never waits lets others run |
//! | [`fast_rand`] | a cheap random number, for fair choices |
//! | [`exit`] | the end of the process while fibers wait |
//! | [`readiness`] | waiting for descriptors beside wake-ups |
//! | [`fork`] | what becomes of a fiber in a child made by `fork` |
//! | [`ring`] | whether the caller has a ring, and what it can do |
//! | [`wait`] | how a fiber, or a thread outside, waits for something |

pub(crate) mod budget;
pub(crate) mod cancellation;
pub(crate) mod counters;
pub(crate) mod current;
pub(crate) mod exit;
pub(crate) mod fast_rand;
pub(crate) mod fork;
pub(crate) mod idle;
pub(crate) mod inbox;
pub(crate) mod local_or_shared;
pub(crate) mod monitor;
pub(crate) mod multishot_queue;
pub(crate) mod offload;
pub(crate) mod operations;
pub(crate) mod reactor;
pub(crate) mod readiness;
pub(crate) mod ready;
pub(crate) mod reap_gate;
pub(crate) mod ring;
pub(crate) mod shared;
pub(crate) mod shortage;
pub(crate) mod thread_ends;
pub(crate) mod threads;
pub(crate) mod ticket_lock;
pub(crate) mod timers;
pub(crate) mod wait;
pub(crate) mod worker;
