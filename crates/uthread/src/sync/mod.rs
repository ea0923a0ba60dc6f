//! Synchronization by the names of `std::sync`: what waits suspends a fiber and blocks a thread.
//!
//! All of it works between fibers and native threads in any mix, a guard may be held across any call that
//! suspends the fiber, and a free lock is taken by one compare-exchange. What never waits is `std`'s own.
//!
//! ```
//! use uthread::sync::atomic::{AtomicU32, Ordering};
//! use uthread::sync::{Arc, Mutex, mpsc};
//! # let _ = (AtomicU32::new(0), Ordering::Relaxed, Arc::new(Mutex::new(0)), mpsc::channel::<u8>());
//! ```
//!
//! | | waits as a point of cancellation | waits on when cancelled |
//! | --- | --- | --- |
//! | [`Mutex`], [`RwLock`], [`LazyLock`] | | all |
//! | [`Once`], [`OnceLock`] | `wait`, `wait_force` | `call_once`, `get_or_init`, `set` |
//! | [`Condvar`], [`Barrier`], [`Semaphore`] | all | |
//! | [`mpsc`], [`mod@oneshot`], [`select!`] | all | |

mod barrier;
mod condvar;
mod lazy_lock;
mod mutex;
mod once;
mod once_lock;
mod rwlock;
mod semaphore;

pub mod broadcast;
pub mod mpsc;
pub mod oneshot;
pub mod promise;
pub mod select;

mod lock;
mod notify_mutex;
mod poison;

mod buckets;
mod parking_lot;

pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic};

pub use crate::select;
pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard};
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
