//! Synchronization primitives, with the names of `std::sync`. Waiting suspends a fiber and blocks a
//! thread.
//!
//! All of them work between fibers and threads in any combination. A guard may be held across any
//! call that suspends the fiber. A free lock is acquired by one compare-exchange. Types that never
//! wait are re-exported from `std`.
//!
//! ```
//! use uthread::sync::atomic::{AtomicU32, Ordering};
//! use uthread::sync::{Arc, Mutex, mpsc};
//! # let _ = (AtomicU32::new(0), Ordering::Relaxed, Arc::new(Mutex::new(0)), mpsc::channel::<u8>());
//! ```
//!
//! | to | use |
//! | --- | --- |
//! | let fibers change a value one at a time | [`Mutex`]; for a number or a flag, [`atomic`] |
//! | let many fibers read a value that seldom changes | [`RwLock`] |
//! | wait until a shared value has changed | [`Condvar`], with a `Mutex` |
//! | initialize a value once, when it is first needed | [`LazyLock`], [`OnceLock`]; without a value, [`Once`] |
//! | limit how many fibers do something at the same time | [`Semaphore`] |
//! | let a group of fibers start a step together | [`Barrier`] |
//! | pass values on, each to one receiver | [`mpsc`]: `sync_channel` with a bound, `channel` without |
//! | share values between several receivers, such as jobs between workers | [`mpmc`] |
//! | pass one value on: an answer, a signal to stop | [`mod@oneshot`] |
//! | publish one value to many readers | [`promise`] |
//! | send every value to every receiver | [`broadcast`] |
//! | let others follow a value that changes, skipping values if they are slow | [`watch`] |
//! | wait for the first of several events | [`select!`] |
//! | build a lock of one's own | [`futex`] |
//!
//! The guide compares the [channels](crate::guide::channels). When a fiber is cancelled, its wait
//! ends or continues:
//!
//! | | waits are cancellation points | waits continue when cancelled |
//! | --- | --- | --- |
//! | [`Mutex`], [`RwLock`], [`LazyLock`] | | all |
//! | [`Once`], [`OnceLock`] | `wait`, `wait_force` | `call_once`, `get_or_init`, `set` |
//! | [`Condvar`], [`Barrier`], [`Semaphore`], [`futex`] | all | |
//! | [`mpsc`], [`mpmc`], [`mod@oneshot`], [`promise`], [`broadcast`], [`select!`] | all | |
//! | [`watch`] | `changed` | `send`, `send_replace`, `send_modify` |

mod barrier;
mod condvar;
mod lazy_lock;
mod mutex;
mod once;
mod once_lock;
mod rwlock;
mod semaphore;

pub mod broadcast;
pub mod futex;
pub mod mpmc;
pub mod mpsc;
pub mod oneshot;
pub mod promise;
pub mod select;
pub mod watch;

pub(crate) mod change;
mod channel;
mod channel_ends;
pub(crate) mod exclusive;
mod lock;
pub(crate) mod notify_mutex;
mod poison;
pub(crate) mod selection;

mod parking_lot;

mod bucket;
mod buckets;

pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic};

pub use crate::select;
pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard};
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{
    AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
};
