//! Prioritized of priority, and how they take turns.
//!
//! Outside the layers, as all of them have something to order: a fiber has a priority, and ready
//! fibers, submissions and calls on the thread pool are ordered by it. The rule and its bounds are
//! in the README of `sched`.

pub(crate) mod arbiter;
mod by_priority;

pub(crate) use arbiter::Arbiter;
pub(crate) use by_priority::ByPriority;

/// The priority of a fiber, or of a part of its work.
///
/// ```
/// use uthread::priority::{self, Priority};
/// use uthread::thread::Builder;
///
/// uthread::run(|| {
///     let urgent = Builder::new().priority(Priority::Urgent);
///     let fiber = urgent.spawn(|| priority::current())?;
///     assert_eq!(fiber.join().unwrap(), Priority::Urgent);
///     assert_eq!(priority::current(), Priority::default());
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Priority {
    /// Before all others, for work that somebody waits for: a short request, a heartbeat.
    Urgent,
    /// The priority of all work that has no other.
    #[default]
    Normal,
    /// After all others, for work that nobody waits for: compaction, a backup.
    Background,
}

impl Priority {
    /// From the most urgent one.
    pub(crate) const ALL: [Priority; 3] =
        [Priority::Urgent, Priority::Normal, Priority::Background];

    /// Returns the kernel's I/O priority: the ends of the class *best effort*, which any process
    /// may use. Zero stands for the priority of the process, whose default is in the middle of that
    /// class.
    pub(crate) fn io_priority(self) -> u16 {
        /// `IOPRIO_CLASS_BE`, with the levels 0 to 7 in the lower bits.
        const BEST_EFFORT: u16 = 2 << 13;
        match self {
            Priority::Urgent => BEST_EFFORT,
            Priority::Normal => 0,
            Priority::Background => BEST_EFFORT | 7,
        }
    }
}
