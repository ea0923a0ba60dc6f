//! Priorities: which fibers run first, and whose requests reach the kernel first.
//!
//! A fiber is [urgent, normal or background](Priority). Children inherit the priority of the fiber that spawns them, also in a
//! [`scope`](crate::scope). [`Builder::priority`](crate::thread::Builder::priority) gives a fiber another one from its start on, and
//! [`with`] a part of its work, such as a single call.
//!
//! ```
//! use uthread::priority::{self, Priority};
//! use uthread::{fs, scope};
//!
//! uthread::run(|| {
//!     priority::with(Priority::Background, || {
//!         scope(|scope| {
//!             // A child inherits.
//!             scope.spawn(|| assert_eq!(priority::current(), Priority::Background));
//!         });
//!     });
//!     // A single call that does not wait behind the others.
//!     let text = priority::with(Priority::Urgent, || fs::read_to_string("Cargo.toml"))?;
//!     assert!(text.starts_with("[package]"));
//!     Ok::<(), std::io::Error>(())
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What it orders
//!
//! - The fibers of a worker that can run, and new fibers that wait for any worker. A fiber keeps its worker until its next call
//!   that waits or yields, whatever its priority is: split long computations, or pass them to [`blocking`](crate::blocking()).
//! - The requests of one flush: a worker submits the requests of its fibers together, now and then, and urgent ones come before
//!   normal ones, and those before background ones. The requests of one [`submit_all`](crate::ring::submit_all) stay together.
//!
//! # Nothing starves
//!
//! Urgent fibers run first, but at most 32 turns more than the others, as long as others wait. A flood of urgent fibers therefore takes
//! every second turn of a worker, and not all of them. Among the others, a background fiber has a turn after eight normal ones. So the
//! background fiber that has waited longest waits for at most 40 turns of urgent and 8 turns of normal fibers of its worker, and the normal
//! fiber that has waited longest for at most 33 turns of urgent fibers and one of a background fiber.
//!
//! # Limits
//!
//! A lock has no priority: an urgent fiber that waits for a lock waits for the fiber that holds it, whatever the priority of
//! that one is. With [`Driver::Threads`](crate::Driver::Threads), fibers are threads and the kernel schedules them: a priority is inherited and
//! returned there, but orders no fibers. Outside of fibers, [`with`] only calls its closure.

use crate::sched::wait;

pub use crate::class::Priority;

/// Calls `f` with this priority. The previous priority of the calling fiber is restored when `f` returns or unwinds.
///
/// Outside of fibers, this only calls `f`.
///
/// ```
/// use uthread::priority::{self, Priority};
///
/// uthread::run(|| {
///     let inner = priority::with(Priority::Background, || {
///         priority::with(Priority::Urgent, priority::current)
///     });
///     assert_eq!(inner, Priority::Urgent);
///     assert_eq!(priority::current(), Priority::Normal);
/// });
/// let outside = priority::with(Priority::Urgent, priority::current);
/// assert_eq!(outside, Priority::Normal);
/// ```
pub fn with<R>(priority: Priority, f: impl FnOnce() -> R) -> R {
    let _restored = Restored(wait::set_priority(priority));
    f()
}

/// Restores the previous priority on drop.
struct Restored(Priority);

impl Drop for Restored {
    fn drop(&mut self) {
        wait::set_priority(self.0);
    }
}

/// Returns the priority of the calling fiber; outside of fibers, [`Priority::Normal`].
///
/// ```
/// use uthread::priority::{self, Priority};
///
/// assert_eq!(priority::current(), Priority::Normal);
/// ```
pub fn current() -> Priority {
    wait::priority()
}
