//! Synchronization primitives, with the names of `std::sync`. Waiting suspends a fiber and blocks a thread.
//!
//! All of them work between fibers and threads in any combination. A guard may be held across any call that
//! suspends the fiber. A free lock is acquired by one compare-exchange. Types that never wait are re-exported
//! from `std`.
//!
//! ```
//! use uthread::sync::atomic::{AtomicU32, Ordering};
//! use uthread::sync::{Arc, Mutex, mpsc};
//! # let _ = (AtomicU32::new(0), Ordering::Relaxed, Arc::new(Mutex::new(0)), mpsc::channel::<u8>());
//! ```
//!
//! | | waits are cancellation points | waits continue when cancelled |
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
pub use semaphore::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
