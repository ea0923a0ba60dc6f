//! Starting fibers on a given runtime.

use std::panic::{self, Location};

use super::JoinHandle;
use crate::fiber::{Fiber, Identity};
use crate::runtime::Runtime;
use crate::sched::caller::{self, cancellation};

impl Runtime {
    /// Spawns a fiber on this runtime; see [`spawn`](crate::spawn).
    ///
    /// ```
    /// let runtime = uthread::Runtime::new()?;
    /// let fiber = runtime.spawn(|| 6 * 7);
    /// assert_eq!(fiber.join().unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        cancellation::count_spawn();
        let identity = Identity::anonymous(Location::caller());
        let (fiber, joinable) = Fiber::owning(identity, f);
        caller::pass_priority(&fiber, None);
        // The fiber's outcome holds the error as well.
        let _ = self.inject(fiber, None);
        JoinHandle::new(joinable)
    }

    /// Runs `f` as a fiber of this runtime and returns its result. Blocks the calling thread, or
    /// suspends the calling fiber, meanwhile. `f` may borrow from the caller.
    ///
    /// # Panics
    ///
    /// Panics with the payload of `f` if it panics.
    ///
    /// ```
    /// let runtime = uthread::Runtime::new()?;
    /// let words = vec!["plain", "blocking", "code"];
    /// assert_eq!(runtime.run(|| words.len()), 3);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn run<F, T>(&self, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        cancellation::count_spawn();
        let identity = Identity {
            name: Some("main".into()),
            spawn_site: Location::caller(),
        };
        let deadline = cancellation::deadline_to_inherit();
        let (body, joinable) = Fiber::borrowing(identity, deadline, f, None);
        caller::pass_priority(&body, None);
        // The fiber's outcome holds the error as well; it is joined below.
        let _ = self.inject(body, None);
        // Joined here, before anything that `f` borrows can end.
        match JoinHandle::new(joinable).join_elsewhere() {
            Ok(value) => value,
            Err(payload) => panic::resume_unwind(payload),
        }
    }
}
