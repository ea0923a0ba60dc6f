//! The protocols of `uthread` under every interleaving of a few threads.
//!
//! The files of the protocols are included as they are; `atomic.rs` gives them loom's atomics,
//! locks and cells where the library gives `std`'s. What the models add is the code around a
//! protocol: a change of that in the library also changes it here. No special flag is needed:
//! `cargo test`.
//!
//! loom knows all orders of the threads and all values that a load may return under the memory
//! model, but gives `SeqCst` no more meaning than `AcqRel`, except in a fence: what passes here
//! rests on the fences alone.
#![cfg(test)]

mod wake_models;

mod last_worker_models;

mod claim_models;

mod outcome_models;

mod idle_models;

mod channel_models;

mod select_models;

mod condvar_models;
mod futex_models;
mod lock_models;
mod notify_mutex_models;
mod once_models;
mod semaphore_models;

mod pool_models;
mod returned_models;

mod runtime;

mod substitutes;

mod driver;
mod fiber;
mod pool;
mod sched;
mod sync;
mod tls;

mod atomic;

/// Makes `cargo xtask ci` check each model with all the preemptions that it can afford.
const EXHAUSTIVE: &str = "UTHREAD_EXHAUSTIVE";

/// How many preemptions `cargo test` checks at most: most faults of such protocols need no more,
/// and each further one multiplies the time. A model that cannot afford more than that is checked
/// with one fewer.
const PREEMPTIONS_MAX_BY_DEFAULT: usize = 2;

/// Runs `model` in every interleaving with at most `preemptions_max` switches away from a thread
/// that could go on. Most faults of such protocols need two or three; each more multiplies the
/// time, so each model says what it can afford.
fn check(preemptions_max: impl Into<Option<usize>>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    let affordable = preemptions_max.into();
    builder.preemption_bound = match std::env::var_os(EXHAUSTIVE) {
        Some(_) => affordable,
        None => Some(affordable.map_or(PREEMPTIONS_MAX_BY_DEFAULT, |max| {
            (max - 1).min(PREEMPTIONS_MAX_BY_DEFAULT)
        })),
    };
    builder.check(model);
}
